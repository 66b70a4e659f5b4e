"""Bad input: a clear error with a hint, exit code 2, and nothing written."""

from __future__ import annotations

import sqlite3
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.acceptance.commands import GAPLESS, Commands
from tests.support import SqliteHome

BLOCKS = ("--job", "jobs:copy", "--range", "0:9")
START = ("backfill", "start", *BLOCKS)

BROKEN_MODULES = {
    "raises.py": "raise RuntimeError('no configuration')",
    "leaves.py": "import sys; sys.exit(3)",
    "lacks.py": "import no_such_dependency",
    "confused.py": "import sys; sys.no_such_name",
}

BAD_STARTS = [
    # the job
    ("--job jobs --range 0:9", "`jobs` does not name a job"),
    ("--job no_such:copy --range 0:9", "cannot import `no_such`: No module named 'no_such'"),
    ("--job jobs:no_such --range 0:9", "module `jobs` has no `no_such`"),
    ("--job jobs:copi --range 0:9", "hint: did you mean `copy`?"),
    ("--job jobs:not_a_job --range 0:9", "`jobs:not_a_job` is not a job"),
    ("--job raises:job --range 0:9", "importing `raises` failed: RuntimeError: no configuration"),
    ("--job leaves:job --range 0:9", "importing `leaves` failed: SystemExit: 3"),
    ("--job lacks:job --range 0:9", "cannot import `lacks`: No module named 'no_such_dependency'"),
    ("--job confused:job --range 0:9", "importing `confused` failed: AttributeError"),
    # the selector
    ("--job jobs:copy", "give exactly one of `--range`, `--keys` and `--filter`"),
    ("--job jobs:copy --range 0:9 --keys 1", "give exactly one of"),
    ("--job jobs:copy --range 0", "`0` is not a range"),
    ("--job jobs:copy --range a:b", "`a` is not a number"),
    ("--job jobs:copy --range 9:0", "the range `9:0` is inverted"),
    ("--job jobs:copy --range 5:+0", "the range `5:+0` is empty"),
    ("--job jobs:copy --range 0:99999999999999999999", "the selector is too large"),
    ("--job jobs:days --range 2024-01-01:2025-01-01", "there is no partition `2025-01-01`"),
    ("--job jobs:days --range 2024-01-01:+9999999999", "from the year 1 to the year 9999 only"),
    ("--job jobs:chains --keys base,bitcoin", "there is no partition `bitcoin`"),
    ("--job jobs:chains --filter layer=3", "the selector selects no partition"),
    ("--job jobs:chains --filter layer", "`layer` is not a filter"),
    ("--job jobs:chains --filter layer=1 --filter layer=2", "to be both `1` and `2`"),
    ("--job jobs:copy --filter layer=2", "open-ended blocks partitions cannot be filtered"),
    # the numbers
    ("--job jobs:copy --range 0:9 --chunk-size 0", "chunk size is 0"),
    ("--job jobs:copy --range 0:9 --chunk-size -1", "chunk size is -1"),
    ("--job jobs:copy --range 0:9 --chunk-size 99999999999999999999", "chunk size is 9999"),
    ("--job jobs:copy --range 0:9 --max-concurrent 0", "max concurrent is 0"),
    ("--job jobs:copy --range 0:9 --order latest", "`latest` is not one of `oldest`, `newest`"),
    ("--job jobs:copy --range 0:9 --queue no/such", "`no/such` is not a valid queue"),
    ("--job jobs:copy --range 0:9 --id a/b", "`a/b` is not a valid id"),
    ("--job jobs:copy --range 0:9 --retry never", "`never` is not one of `backoff`, "),
    ("--job jobs:copy --range 0:9 --retry-limit -1", "retries must not be negative"),
    ("--job jobs:copy --range 0:9 --retry-base soon", "`soon` is not a duration"),
    ("--job jobs:copy --range 0:9 --retry-base 2m --retry-max-delay 1", "must not be below base"),
    ("--job jobs:copy --range 0:9 --retry-base 99999999d", "is not between 0 s and 100 years"),
    ("--job jobs:copy --range 0:9 --retry halt --retry-base 1", "`--retry-base` does not fit"),
    ("--job jobs:copy --range 0:9 --retry unbounded --retry-limit 1", "`--retry-limit` does not"),
    ("--job jobs:copy --range 0:9 --retry schedule --retry-schedule 5,,6", "`` is not a duration"),
    ("--job jobs:copy --range 0:9 --retires 3", "no such option `--retires`"),
]


@pytest.fixture
def gapless(sqlite_gapless: Commands) -> Commands:
    return sqlite_gapless


@pytest.mark.parametrize(("arguments", "complaint"), BAD_STARTS)
def test_a_bad_start_creates_no_ledger(gapless: Commands, arguments: str, complaint: str) -> None:
    for name, text in BROKEN_MODULES.items():
        (gapless.folder / name).write_text(text)

    said = gapless.refused("backfill", "start", *arguments.split())

    assert complaint in said
    assert not list(gapless.folder.glob("ledger.db*"))


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ("backfill show none", "there is no backfill `none`"),
        ("backfill wait none", "there is no backfill `none`"),
        ("backfill pause none", "there is no backfill `none`"),
        ("backfill cancel none --force", "there is no backfill `none`"),
        ("backfill retry-failed none", "there is no backfill `none`"),
        ("dead ls none", "there is no backfill `none`"),
        ("dead retry", "name dead letters, or give `--all`"),
        ("dead retry done:0", "`done:0` is not a dead letter"),
        ("backfill pause done", "backfill `done` is SUCCEEDED: cannot pause it"),
        ("backfill resume done", "backfill `done` is SUCCEEDED: cannot resume it"),
        ("backfill cancel done", "backfill `done` is SUCCEEDED: cannot cancel it"),
        ("backfill retry-failed done", "backfill `done` SUCCEEDED: there is nothing to retry"),
        ("backfill retry-failed open", "only an ended one can be retried"),
        ("backfill resume cancelled", "backfill `cancelled` is CANCELLED: cannot resume it"),
        ("backfill ls --state gone", "`gone` is not one of"),
        ("backfill show", "missing argument `BACKFILL_ID`"),
        ("backfill wait open --timeout never", "`never` is not a duration"),
        ("backfill start --job jobs:copy --range 0:8 --id open", "belongs to another backfill"),
        ("backfill start --job jobs:days --keys 2024-01-01 --id open --detach", "another backfill"),
    ],
)
async def test_an_invalid_command_changes_nothing(
    shop: Commands, arguments: str, complaint: str
) -> None:
    before = await shop.rows()

    said = shop.refused(*arguments.split())

    assert complaint in said
    after = await shop.rows()
    after["workers"] = before["workers"]  # one that ran a backfill here may have come and gone
    assert after == before


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Commands:
    """A ledger with a finished, an unfinished and a cancelled backfill."""
    folder = tmp_path_factory.mktemp("shop")
    gapless = Commands(folder, SqliteHome(folder / "ledger.db"))
    gapless("backfill", "start", *BLOCKS, "--id", "done")
    gapless.start("copy", "--range", "0:9", "--id", "open")
    gapless.start("copy", "--range", "0:9", "--id", "cancelled")
    gapless("backfill", "cancel", "cancelled")
    return gapless


@pytest.mark.parametrize("slots", ["", "many", "default=0", "a b=1", "x=1,x=2"])
def test_invalid_slots(gapless: Commands, slots: str) -> None:
    gapless.refused("worker", "--slots", slots)

    assert not list(gapless.folder.glob("ledger.db*"))


def test_a_poll_interval_of_zero(gapless: Commands) -> None:
    assert "is not between 0.01 s" in gapless.refused("worker", "--poll", "0")


def test_hints_can_be_typed_as_printed(gapless: Commands) -> None:
    other = f"sqlite:///{gapless.folder}/my ledger.db"
    gapless("ledger", "migrate", "--ledger", other)

    said = gapless.refused("backfill", "show", "none", "--ledger", other)

    assert f"hint: `gapless backfill ls --ledger '{other}'` lists them" in said


class TestLedgers:
    """A ledger that cannot be used, mostly for the command that would create it."""

    @pytest.mark.parametrize("command", [("backfill", "ls"), START])
    def test_unreachable_postgres(self, gapless: Commands, command: Sequence[str]) -> None:
        url = "postgresql://me:hunter2@127.0.0.1:1/db?password=hunter3"

        said = gapless.refused(*command, "--ledger", url)

        assert "the ledger `postgresql://me@127.0.0.1:1/db` does not answer" in said
        assert "hunter" not in said

    def test_a_password_with_a_character_that_ends_it(self, gapless: Commands) -> None:
        said = gapless.refused("backfill", "ls", "--ledger", "postgresql://me:hun#ter2@h:1/db")

        assert "hun" not in said

    def test_an_unknown_scheme(self, gapless: Commands) -> None:
        said = gapless.refused(*START, "--ledger", "mysql://me:hunter2@host/db")

        assert "a ledger cannot live at `mysql://…`" in said

    def test_a_directory(self, gapless: Commands) -> None:
        said = gapless.refused(*START, "--ledger", f"sqlite:///{gapless.folder}")

        assert f"cannot open the ledger `{gapless.folder}`" in said

    @pytest.mark.parametrize("parent", ["jobs.py", "/proc/gapless"])
    def test_a_path_where_no_file_can_be_created(self, gapless: Commands, parent: str) -> None:
        gapless.refused(*START, "--ledger", f"sqlite:///{parent}/ledger.db")

    def test_a_text_file(self, gapless: Commands) -> None:
        text = (gapless.folder / "jobs.py").read_text()

        said = gapless.refused(*START, "--ledger", "sqlite:///jobs.py")

        assert "file is not a database" in said
        assert (gapless.folder / "jobs.py").read_text() == text

    def test_a_database_of_another_program(self, gapless: Commands) -> None:
        other = gapless.folder / "other.db"
        with sqlite3.connect(other) as connection:
            connection.execute("CREATE TABLE mine (x)")
        connection.close()
        before = other.read_bytes()

        said = gapless.refused(*START, "--ledger", f"sqlite:///{other}")

        assert f"`{other}` is a SQLite database, but not a Gapless ledger" in said
        assert other.read_bytes() == before

    @pytest.mark.parametrize("command", ["backfill ls", "ledger check"])
    def test_a_missing_ledger(self, gapless: Commands, command: str) -> None:
        said = gapless.refused(*command.split(), "--ledger", "missing/ledger.db")

        assert "there is no ledger at `missing/ledger.db`" in said
        assert "hint: `gapless fetch`, `gapless wallet add` or `gapless backfill start" in said
        assert not (gapless.folder / "missing").exists()

    def test_an_empty_postgres_database(self, postgres_gapless: Commands) -> None:
        said = postgres_gapless.refused("backfill", "ls")

        assert f"there is no ledger at `{postgres_gapless.home.url}`" in said


class TestSchemas:
    async def test_a_newer_sqlite_schema(self, gapless: Commands) -> None:
        gapless("ledger", "migrate")
        await gapless.home.run("PRAGMA user_version = 99")

        start = f"backfill start {' '.join(BLOCKS)}"
        for command in ("backfill ls", start, "worker", "ledger migrate"):
            said = gapless.refused(*command.split())
            assert "has schema 99, this Gapless knows 8" in said
            assert "hint: upgrade Gapless" in said
        assert set((await gapless.rows()).values()) == {0}

    async def test_a_newer_postgres_schema(self, postgres_gapless: Commands) -> None:
        gapless = postgres_gapless
        gapless("ledger", "migrate")
        await gapless.home.run("UPDATE schema_version SET version = 99 RETURNING version")

        assert "has schema 99, this Gapless knows 8" in gapless.refused("backfill", "ls")
        gapless.refused("backfill", "start", *BLOCKS, "--detach")
        assert set((await gapless.rows()).values()) == {0}


NEIGHBOUR = """
INSERT INTO workers (id, host, pid, process_started, library, slots, unresolved, started_at,
                     seen_at)
VALUES ('old:1:a', 'old', 1, '0', 'another library', '{{}}', '{{}}', {now}, {now})
RETURNING id
"""


@pytest.mark.parametrize("backend", ["sqlite", "postgres"])
async def test_a_live_process_with_a_different_library(
    backend: str, request: pytest.FixtureRequest
) -> None:
    gapless: Commands = request.getfixturevalue(f"{backend}_gapless")
    gapless("ledger", "migrate")
    clocks = {"sqlite": "unixepoch('subsec')", "postgres": "extract(epoch FROM now())"}
    await gapless.home.run(NEIGHBOUR.format(now=clocks[backend]))

    for command in ("worker", f"backfill start {' '.join(BLOCKS)}"):
        said = gapless.refused(*command.split())
        assert "worker `old:1:a` (pid 1 on old) uses another library on the same ledger" in said
        assert "hint: run both from one environment, or stop the other first" in said
    rows = await gapless.rows()
    assert (rows.pop("workers"), set(rows.values())) == (1, {0})


@pytest.mark.parametrize(
    "url", ["sqlite:////proc/none/ledger.db", "postgresql://nobody@127.0.0.1:1/none"]
)
def test_a_worker_without_a_ledger(url: str, gapless: Commands) -> None:
    gapless.refused("worker", "--ledger", url)


def test_usage_errors_at_the_top_level(gapless: Commands) -> None:
    assert gapless.refused("backfil") == (
        "error: no such command `backfil`\n\nhint: did you mean `backfill`?\n"
    )
    assert gapless.refused("worker", "--verbos") == (
        "error: no such option `--verbos`\n\nhint: did you mean `--verbose`?\n"
    )


@pytest.mark.parametrize(
    ("command", "code", "said"),
    [
        ("networks", 1, "`stdout` cannot be written: no space left on device"),
        ("networks --json", 1, "`stdout` cannot be written: no space left on device"),
        ("backfill ls --json", 1, "`stdout` cannot be written: no space left on device"),
        (
            "backfill start --job jobs:copy --range 0:9",
            1,
            "`stdout` cannot be written: no space left on device",
        ),
        ("backfill show none --json", 2, "there is no backfill `none`"),
    ],
)
def test_a_full_disk_behind_stdout_is_reported_without_a_traceback(
    sqlite_gapless: Commands, command: str, code: int, said: str
) -> None:
    sqlite_gapless.start("copy")
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [GAPLESS, *command.split()],
            cwd=sqlite_gapless.folder,
            env=sqlite_gapless.environment(),
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode == code, done.stderr
    error, *blank, hint = done.stderr.splitlines()
    assert blank == ([] if "--json" in command else [""])
    assert said in error
    assert "hint" in hint


def test_a_closed_pipe_is_not_an_error(gapless: Commands) -> None:
    """`gapless backfill ls | head -1` prints nothing about the pipe."""
    gapless.start("copy")
    done = subprocess.run(
        ["/bin/sh", "-c", f"{GAPLESS} backfill ls --json | true"],
        cwd=gapless.folder,
        env=gapless.environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == ""
