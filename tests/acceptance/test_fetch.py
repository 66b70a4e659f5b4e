"""`gapless fetch` as a person uses it: a plan, progress, a summary, and the same command again."""

from __future__ import annotations

import asyncio
import re
import signal
import sqlite3
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.commands import GAPLESS, Commands
from tests.acceptance.test_devnode import devnode
from tests.conformance.fetch.stage import contents

KEY = "v2/S3CRETKEY"
BLOCKS = 400


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A node whose URL contains a key."""
    cache = tmp_path_factory.mktemp("cache")
    arguments = ("--blocks", str(BLOCKS), "--txs", "0:3", "--cache", cache, "--latency-ms", "10")
    with devnode(*arguments) as running:
        yield f"{running}/{KEY}"


def rows(gapless: Commands, table: str, sink: str = "chain.db") -> int:
    with sqlite3.connect(gapless.folder / sink) as connection:
        (found,) = connection.execute(f"SELECT count(*) FROM {table}").fetchone()
        return int(found)


def test_a_plan_a_summary_and_a_query_that_works(sqlite_gapless: Commands, url: str) -> None:
    done = sqlite_gapless("fetch", "custom", "10:+100", "--rpc", url, "--to", "chain.db")
    assert done.line.startswith("bf_")
    said = done.stderr.splitlines()
    assert said[0] == "custom (chain 1337): head 400, finalized block 336 (reported by the node)"
    assert said[1].startswith("blocks 10 to 109 (100 blocks): blocks, transactions, logs,")
    assert said[2] == (
        "to fetch: 100 blocks, at least 100 eth_getBlockByNumber, 100 eth_getBlockReceipts"
    )
    assert said[3].startswith("succeeded: custom 10 to 109, 100 blocks fetched in ")
    assert re.fullmatch(r"written: 1 batch from \d{4}-\S+Z to \d{4}-\S+Z", said[4])
    assert said[5].startswith("stored: 100 blocks, ")
    query = said[-1].removeprefix("try: ")
    assert query.startswith("sqlite3 -header -column chain.db")
    with sqlite3.connect(sqlite_gapless.folder / "chain.db") as connection:
        statement = query.split('"')[1]
        assert len(connection.execute(statement).fetchall()) == 5


def test_the_same_range_again_a_smaller_and_a_larger_one(
    sqlite_gapless: Commands, url: str
) -> None:
    where = ("--rpc", url, "--to", "chain.db")
    first = sqlite_gapless.json("fetch", "custom", "0:99", *where)
    assert (first["state"], first["fetched"], first["gaps"]) == ("SUCCEEDED", 100, [])
    again = sqlite_gapless.json("fetch", "custom", "0:99", *where)
    assert (again["id"], again["state"], again["fetched"]) == (None, "SUCCEEDED", 0)
    assert again["rows"] == first["rows"]
    assert sqlite_gapless.json("fetch", "custom", "0:149", *where)["fetched"] == 50
    assert rows(sqlite_gapless, "blocks") == 150
    proven = sqlite_gapless("verify", first["id"])
    assert proven.stdout.startswith("1337: blocks 0-99 (100 blocks)")
    assert sqlite_gapless("gaps", "chain.db", "--blocks", "0:160", code=1).stdout == "150:160\n"


def test_a_dry_run_creates_nothing(sqlite_gapless: Commands, url: str) -> None:
    before = sorted(sqlite_gapless.folder.iterdir())
    planned = sqlite_gapless.json(
        "fetch", "custom", "0:1k", "--rpc", url, "--to", "chain.db", "--dry-run"
    )
    calls = {"eth_getBlockByNumber": 337, "eth_getBlockReceipts": 337}
    assert planned == {
        "first": 0,
        "last": 336,
        "requested": [0, 1000],
        "final": 336,
        "missing": 337,
        "to_prove_again": 0,
        "to_derive": 0,
        "calls": calls,
        "seconds": None,
        "days": None,
    }
    assert sorted(sqlite_gapless.folder.iterdir()) == before


def test_the_range_and_the_numbers_may_come_from_the_environment(
    sqlite_gapless: Commands, url: str
) -> None:
    environment = {
        "BACKFILL_START_HEIGHT": "20",
        "BACKFILL_END_HEIGHT": "59",
        "BACKFILL_WORKERS": "2",
        "BACKFILL_BATCH_SIZE": "7",
        "NODE": url,
    }
    command = ("fetch", "custom", "--rpc", "env:NODE", "--to", "lake/", "--json")
    done = sqlite_gapless(*command, env=environment).json
    assert (done["first"], done["last"], done["fetched"]) == (20, 59, 40)
    assert len(asyncio.run(contents(f"{sqlite_gapless.folder}/lake/"))["blocks"]) == 40


def test_a_fetch_with_configured_names_can_be_left_to_workers(
    sqlite_gapless: Commands, url: str
) -> None:
    (sqlite_gapless.folder / "gapless.toml").write_text(
        '[endpoints.here]\nurl = "env:NODE"\nnetwork = "custom"\n[sinks.chain]\nurl = "chain.db"\n'
    )
    environment = {"NODE": url}
    created = sqlite_gapless("fetch", "custom", "0:49", "--detach", env=environment)
    assert "hint: `gapless worker` runs it" in created.stderr
    shown = sqlite_gapless.show(created.line)
    assert (shown["job"], shown["state"]) == ("blocks", "PENDING")
    assert shown["spec"]["endpoints"] == ["here"]
    sqlite_gapless("worker", "--until-idle", env=environment)
    assert sqlite_gapless.show(created.line)["state"] == "SUCCEEDED"
    assert rows(sqlite_gapless, "blocks") == 50
    with sqlite3.connect(sqlite_gapless.folder / "chain.db") as connection:
        indexes = connection.execute("SELECT name FROM sqlite_schema WHERE type = 'index'")
        assert ("logs_topic0",) in indexes.fetchall()  # ready to be queried


def test_an_interrupted_fetch_resumes(sqlite_gapless: Commands, url: str) -> None:
    command = ["fetch", "custom", "0:336", "--rpc", url, "--to", "chain.db", "--rps", "300"]
    numbers = ["--chunk-size", "40", "--batch-size", "10"]
    process = subprocess.Popen(
        [GAPLESS, *command, *numbers],
        cwd=sqlite_gapless.folder,
        env=sqlite_gapless.environment(None),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    backfill = process.stdout.readline().strip()
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=30)
    assert process.returncode == 130, said
    assert "INTERRUPTED: custom 0 to 336" in said
    assert "hint: resume with `gapless fetch custom 0:336 --rpc … --to chain.db" in said
    assert sqlite_gapless.show(backfill)["state"] in ("PENDING", "RUNNING")
    again = sqlite_gapless(*command[:-2], *numbers)
    assert again.line == backfill
    assert rows(sqlite_gapless, "blocks") == 337


def test_a_call_limit_interrupts_a_fetch_which_can_resume(
    sqlite_gapless: Commands, url: str
) -> None:
    command = ("fetch", "custom", "0:199", "--rpc", url, "--to", "chain.db", "--batch-size", "10")
    stopped = sqlite_gapless(*command, "--max-requests", "200", code=130)
    assert "stopping: all calls allowed by `--max-requests` are used" in stopped.stderr
    assert sqlite_gapless.show(stopped.line)["chunks"]["failed"] == 0
    assert sqlite_gapless(*command).line == stopped.line
    assert rows(sqlite_gapless, "blocks") == 200


REFUSED: dict[str, tuple[list[str], str]] = {
    "network": (["etherium", "0:9"], "did you mean `ethereum`?"),
    "no endpoint": (["ethereum", "0:9", "--to", "x.db"], "give one with `--rpc URL`"),
    "no sink": (["custom", "0:9", "--rpc", "URL"], "give `--to chain.db`"),
    "kind of sink": (["custom", "0:9", "--rpc", "URL", "--to", "x.csv"], "write `name.db`"),
    "range": (["custom", "9:0", "--rpc", "URL", "--to", "x.db"], "write `0:9`"),
    "no range": (["custom", "--rpc", "URL", "--to", "x.db"], "give one, such as `18M:+5000`"),
    "not final": (["custom", "390:400", "--rpc", "URL", "--to", "x.db"], "fetch it later"),
    "dataset": (
        ["custom", "0:9", "--rpc", "URL", "--to", "x.db", "--datasets", "traces"],
        "known are blocks, transactions, logs, withdrawals",
    ),
    "chain": (
        ["ethereum", "0:9", "--rpc", "URL", "--to", "x.db"],
        "use only endpoints of the requested network",
    ),
    "workers": (
        ["custom", "0:9", "--rpc", "URL", "--to", "x.db", "--workers", "0"],
        "from 1 to 1,000,000",
    ),
    "detach": (
        ["custom", "0:9", "--rpc", "URL", "--to", "x.db", "--detach"],
        "URLs are never stored",
    ),
    "url": (["custom", "0:9", "--rpc", "ftp://x", "--to", "x.db"], "write `https://host/path`"),
    "name": (["custom", "0:9", "--rpc", "archive", "--to", "x.db"], "give one with `--rpc URL`"),
    "anchor": (
        ["custom", "0:9", "--rpc", "URL", "--to", "x.db", "--anchor", f"5:0x{'77' * 32}"],
        "check the URL of the endpoint, and the hash if you gave it with `--anchor`",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_invalid_input_is_refused_with_a_hint_and_creates_nothing(
    sqlite_gapless: Commands, url: str, case: str
) -> None:
    arguments, hint = REFUSED[case]
    before = sorted(sqlite_gapless.folder.iterdir())
    refused = sqlite_gapless(
        "fetch", *(url if each == "URL" else each for each in arguments), code=2
    )
    assert refused.stdout == ""
    assert "error: " in refused.stderr
    assert hint in refused.stderr
    assert "Traceback" not in refused.stderr
    assert sorted(sqlite_gapless.folder.iterdir()) == before


def test_the_endpoint_from_the_environment_is_for_ethereum_only(
    sqlite_gapless: Commands, url: str
) -> None:
    environment = {"ETH_RPC_URL": url}
    ethereum = sqlite_gapless.refused("fetch", "ethereum", "0:9", "--to", "x.db", env=environment)
    assert "error: endpoint `env:ETH_RPC_URL` is on chain 1337, not 1\n" in ethereum
    custom = sqlite_gapless.refused("fetch", "custom", "0:9", "--to", "x.db", env=environment)
    assert "no endpoint for `custom`" in custom
    assert "hint: `ETH_RPC_URL` is used for `ethereum` only: give `--rpc env:ETH_RPC_URL`" in custom
    named = ("fetch", "custom", "0:9", "--to", "x.db", "--rpc", "env:ETH_RPC_URL")
    done = sqlite_gapless(*named, env=environment)
    assert (
        done.stderr.splitlines()[1]
        == "using the endpoint in the environment variable `ETH_RPC_URL`"
    )
    assert "S3CRET" not in ethereum + custom + done.stderr


def test_flags_and_configuration_override_the_environment(
    sqlite_gapless: Commands, url: str
) -> None:
    (sqlite_gapless.folder / "gapless.toml").write_text(
        f'[endpoints.mine]\nurl = "{url}"\nnetwork = "ethereum"\n'
    )
    fetch = ("fetch", "ethereum", "0:9", "--to", "x.db")
    environment = {"ETH_RPC_URL": "http://127.0.0.1:1"}
    assert "`mine` is on chain 1337" in sqlite_gapless.refused(*fetch, env=environment)
    given = sqlite_gapless.refused(*fetch, "--rpc", url, env=environment)
    assert "`127.0.0.1:" in given
    assert "is on chain 1337" in given


def test_misspelled_names_come_with_a_suggestion(sqlite_gapless: Commands, url: str) -> None:
    (sqlite_gapless.folder / "gapless.toml").write_text(
        f'[endpoints.archive]\nurl = "{url}"\nnetwork = "custom"\n[sinks.lake]\nurl = "x.db"\n'
    )
    fetch = ("fetch", "custom", "0:9")
    for arguments, right in (
        ((*fetch, "--rpc", "archiv"), "archive"),
        ((*fetch, "--to", "lak"), "lake"),
        ((*fetch, "--datasets", "blocks,log"), "logs"),
        (("verify", "lak"), "lake"),
    ):
        assert f"hint: did you mean `{right}`?" in sqlite_gapless.refused(*arguments)


def test_a_listing_shows_what_is_fetched_and_hides_hooks(
    sqlite_gapless: Commands, url: str
) -> None:
    (sqlite_gapless.folder / "gapless.toml").write_text(
        f'[endpoints.here]\nurl = "{url}"\nnetwork = "custom"\n[sinks.lake]\nurl = "x.db"\n'
    )
    created = sqlite_gapless("fetch", "custom", "10:+100", "--detach").line
    summary = sqlite_gapless("worker", "--until-idle", "--poll", "50ms").stderr.splitlines()[-1]
    assert summary.startswith("chunks: 2 completed in ")
    assert "; 101 partitions, " in summary
    assert summary.endswith("; 100 blocks written in 1 batch")
    _, *rows = sqlite_gapless("backfill", "ls").stdout.splitlines()
    assert [row.split()[0] for row in rows] == [created]
    assert rows[0].endswith("  custom 10:109 → lake")
    page = sqlite_gapless("backfill", "show", created).stdout
    assert "  fetch       custom 10:109 → lake\n" in page
    _, *rows = sqlite_gapless("backfill", "ls", "--all").stdout.splitlines()
    listed = sorted(row.split("  ")[-1] for row in rows)
    assert listed == ["custom 10:109 → lake", "indexes of lake"]


def test_a_key_appears_nowhere(sqlite_gapless: Commands, url: str) -> None:
    answers: list[Any] = [
        sqlite_gapless("fetch", "custom", "0:30", "--rpc", url, "--to", "chain.db"),
        sqlite_gapless("backfill", "ls", "--json"),
        sqlite_gapless("fetch", "custom", "0:30", "--rpc", url[:-3], "--to", "x.csv", code=2),
        sqlite_gapless("fetch", "ethereum", "0:30", "--rpc", url, "--to", "chain.db", code=2),
    ]
    for answer in answers:
        assert "S3CRET" not in answer.stdout + answer.stderr
    for path in Path(sqlite_gapless.folder).rglob("*"):
        assert path.is_dir() or b"S3CRET" not in path.read_bytes(), path


def test_the_summary_ends_with_what_is_not_proven(sqlite_gapless: Commands, url: str) -> None:
    where = ("--rpc", url, "--to", "chain.db")
    some = sqlite_gapless("fetch", "custom", "0:30", *where, "--verify", "receipts")
    assert "\nnot proven: transactions_root, withdrawals_root\n" in some.stderr
    again = sqlite_gapless.json("fetch", "custom", "0:30", *where, "--verify", "receipts")
    assert again["not_proven"] == ["transactions_root", "withdrawals_root"]
    whole = sqlite_gapless("fetch", "custom", "0:30", *where)
    assert "not proven" not in whole.stderr
    assert "\nproven again from stored rows: 31 blocks\n" in whole.stderr


def test_stored_rows_are_replaced_on_request(sqlite_gapless: Commands, url: str) -> None:
    command = ("fetch", "custom", "0:30", "--rpc", url, "--to", "chain.db")
    sqlite_gapless(*command)
    before = rows(sqlite_gapless, "logs")
    with sqlite3.connect(sqlite_gapless.folder / "chain.db") as connection:
        connection.execute("DELETE FROM logs WHERE block_number < 20")
    assert sqlite_gapless.json(*command)["fetched"] == 0
    assert sqlite_gapless.json(*command, "--refetch")["fetched"] == 31
    assert rows(sqlite_gapless, "logs") == before
