"""`gapless backfill start`: selectors, numbers, policies, ids; in the foreground and detached."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance import beside
from tests.acceptance.commands import Commands
from tests.support import SqliteHome

START = ("backfill", "start", "--job")


@pytest.fixture
def gapless(sqlite_gapless: Commands) -> Commands:
    return sqlite_gapless


class TestInTheForeground:
    def test_it_runs_to_the_end_and_prints_only_the_id(self, gapless: Commands) -> None:
        done = gapless(*START, "jobs:copy", "--range", "0:49", "--id", "mine")

        assert done.line == "mine"
        plan, outcome, ledger = done.stderr.splitlines()
        assert plan == "jobs:copy 0:49: 50 partitions in 5 chunks, 4 at once, queue `default`"
        assert outcome.startswith("mine SUCCEEDED in ")
        assert outcome.endswith("s: 5 of 5 chunks complete")
        assert ledger == f"ledger: {gapless.home.url}"
        assert sorted(gapless.ran()) == [f"mine:{index}" for index in range(5)]

    def test_json_describes_the_backfill_at_its_end(self, gapless: Commands) -> None:
        done = gapless.json(*START, "jobs:copy", "--range", "0:49")

        assert done["id"].startswith("bf_")
        assert (done["state"], done["progress_pct"], done["error"]) == ("SUCCEEDED", 100.0, None)

    def test_output_of_jobs_is_kept_apart_from_the_data(self, gapless: Commands) -> None:
        (gapless.folder / "talkative.py").write_text("print('imported')\nfrom jobs import noisy\n")

        done = gapless(*START, "talkative:noisy", "--range", "0:9", "--json")

        assert done.json["state"] == "SUCCEEDED"
        for said in ("imported", "printed by a job", "printed by its child"):
            assert said in done.stderr.splitlines()

    def test_failures_exit_with_1_and_say_what_to_do(self, gapless: Commands) -> None:
        done = gapless(*START, "jobs:picky", "--range", "0:149", "--id", "p", code=1)

        assert "p FAILED in " in done.stderr
        assert "error: 2 chunks failed: PermanentError: block 3 is" in done.stderr
        assert done.stderr.endswith(
            "\n\nhint: `gapless dead ls p` lists what failed,"
            " `gapless backfill retry-failed p` retries it\n"
        )

    def test_a_failing_chunk_is_reported_at_once(self, gapless: Commands) -> None:
        done = gapless(
            *START, "jobs:stubborn", "--range", "0:9", "--retry-base", "10ms", "--retry-limit", "1",
            code=1,
        )  # fmt: skip

        warning, error = (line for line in done.stderr.splitlines() if " chunk_" in line)
        assert " WARNING chunk_failed worker=" in warning
        assert " ERROR chunk_abandoned worker=" in error
        assert "https://node.example/… does not answer" in warning
        assert "secret" not in done.stderr

    def test_the_same_id_resumes_a_detached_backfill(self, gapless: Commands) -> None:
        gapless.start("copy", "--id", "again", "--queue", "backlog", "--max-concurrent", "2")

        done = gapless.json(*START, "jobs:copy", "--range", "0:49", "--id", "again")

        assert (done["state"], done["queue"], done["max_concurrent_runs"]) == (
            "SUCCEEDED",
            "backlog",
            2,
        )

    async def test_the_same_id_does_not_wait_for_chunks_in_backoff(self, gapless: Commands) -> None:
        slowly = ("--retry-base", "2m", "--retry-max-delay", "2m")
        again = (*START, "jobs:hopeful", "--range", "0:9", "--id", "again", *slowly)
        async with beside.running(gapless, *again) as first:
            assert "retry_in=1" in await first.says("chunk_failed")  # more than 100 seconds
            first.signal()
            await first.ended(130)
        (gapless.folder / "go").touch()

        done = await beside.run_json(gapless, *again)

        assert (done["state"], done["chunks"]["complete"]) == ("SUCCEEDED", 1)

    async def test_a_failed_chunk_is_retried_within_seconds(self, gapless: Commands) -> None:
        async with beside.running(gapless, *START, "jobs:hopeful", "--range", "0:9") as running:
            assert "retry_in=2" in await running.says("chunk_failed")
            (gapless.folder / "go").touch()
            await running.ended(0)

    def test_an_ended_backfill_does_not_run_again(self, gapless: Commands) -> None:
        for _ in range(2):
            gapless(*START, "jobs:copy", "--range", "0:49", "--id", "once")

        assert len(gapless.ran()) == 5

    def test_the_order_is_respected(self, gapless: Commands) -> None:
        for order in ("oldest", "newest"):
            gapless(*START, "jobs:copy", "--range", "0:49", "--id", order, "--order", order,
                    "--max-concurrent", "1")  # fmt: skip

        indices = [int(chunk.partition(":")[2]) for chunk in gapless.ran()]
        assert indices == [0, 1, 2, 3, 4, 4, 3, 2, 1, 0]


class TestDetached:
    def test_the_backfill_is_only_created(self, gapless: Commands) -> None:
        done = gapless(*START, "jobs:copy", "--range", "0:+50", "--id", "later", "--detach")

        assert done.line == "later"
        assert "50 partitions in 5 chunks" in done.stderr
        assert done.stderr.endswith("\n\nhint: `gapless worker` runs it\n")
        assert gapless.show("later")["state"] == "PENDING"
        assert gapless.ran() == []

    def test_using_the_same_id_twice_creates_one_backfill(self, gapless: Commands) -> None:
        first = gapless.json(*START, "jobs:copy", "--range", "0:49", "--id", "x", "--detach")
        second = gapless.json(*START, "jobs:copy", "--range", "0:49", "--id", "x", "--detach")

        assert first == second
        assert len(gapless.json("backfill", "ls")) == 1

    def test_the_ledger_flag_wins_and_hints_repeat_it(
        self, gapless: Commands, tmp_path: Path
    ) -> None:
        other = SqliteHome(tmp_path / "other.db")

        done = gapless(*START, "jobs:copy", "--range", "0:9", "--detach", "--ledger", other.url)

        assert done.stderr.endswith(f"hint: `gapless worker --ledger {other.url}` runs it\n")
        assert not (gapless.folder / "ledger.db").exists()
        assert gapless.json("backfill", "ls", "--ledger", other.url)[0]["id"] == done.line

    def test_by_default_the_ledger_is_in_the_folder(self, gapless: Commands) -> None:
        gapless(*START, "jobs:copy", "--range", "0:9", "--detach", env={"GAPLESS_LEDGER": ""})

        assert (gapless.folder / ".gapless" / "ledger.db").exists()


@pytest.mark.parametrize(
    ("job", "selector", "partitions", "stored"),
    [
        ("copy", ["--range", "5:7"], 3, {"kind": "range", "start": "5", "end": "7"}),
        ("copy", ["--range", "1M:+2k"], 2000, {"kind": "range", "start": "1M", "end": "+2k"}),
        ("days", ["--range", "2024-02-28:2024-03-01"], 3, {"kind": "range"}),
        ("chains", ["--range", "base:tron"], 3, {"kind": "range"}),
        ("copy", ["--keys", "7, 9,7"], 2, {"kind": "explicit", "keys": ["7", "9", "7"]}),
        ("chains", ["--keys", "tron,base"], 2, {"kind": "explicit", "more": 0}),
        ("chains", ["--filter", "layer=2"], 2, {"kind": "filter", "tags": {"layer": "2"}}),
        ("chains", ["--filter", "layer=1", "--filter", "kind=evm"], 1, {"kind": "filter"}),
        ("days", ["--filter", "month=2", "--filter", "weekday=monday"], 4, {"kind": "filter"}),
    ],
)
def test_selectors(
    gapless: Commands, job: str, selector: Sequence[str], partitions: int, stored: dict[str, Any]
) -> None:
    done = gapless.json(*START, f"jobs:{job}", *selector, "--detach")

    assert done["partitions"] == partitions
    assert done["selector"].items() >= stored.items()


def test_numbers_and_names_are_stored(gapless: Commands) -> None:
    done = gapless.json(
        *START, "jobs:copy", "--range", "0:99", "--chunk-size", "7", "--max-concurrent", "3",
        "--queue", "backlog", "--order", "newest", "--detach",
    )  # fmt: skip

    assert done["chunks"]["total"] == 15
    wanted = {"chunk_size": 7, "max_concurrent_runs": 3, "queue": "backlog", "order": "newest"}
    assert done.items() >= wanted.items()


@pytest.mark.parametrize(
    ("options", "policy"),
    [
        ("", {"kind": "backoff", "base": 120.0, "max_delay": 3600.0, "retries": 5}),
        ("--retry backoff --retry-limit 2", {"kind": "backoff", "retries": 2}),
        (
            "--retry-base 1.5s --retry-max-delay 2m --retry-jitter 0.5 --retry-limit 0",
            {"kind": "backoff", "base": 1.5, "max_delay": 120.0, "jitter": 0.5, "retries": 0},
        ),
        ("--retry-base 2h", {"base": 7200.0, "max_delay": 7200.0}),
        ("--retry unbounded --retry-base 9", {"kind": "unbounded", "base": 9.0}),
        (
            "--retry schedule",
            {"kind": "schedule", "delays": [5, 10, 30, 60, 180, 300, 600, 1800, 3600]},
        ),
        (
            "--retry schedule --retry-schedule 100ms,2,1m",
            {"kind": "schedule", "delays": [0.1, 2.0, 60.0]},
        ),
        ("--retry halt", {"kind": "halt"}),
    ],
)
def test_retry_policies(gapless: Commands, options: str, policy: dict[str, Any]) -> None:
    done = gapless.json(*START, "jobs:copy", "--range", "0:9", "--detach", *options.split())

    assert done["retry"].items() >= policy.items()


def test_a_job_has_its_own_policy_and_chunk_size(gapless: Commands) -> None:
    done = gapless.json(*START, "jobs:chains", "--keys", "base,tron", "--detach")

    assert (done["retry"]["kind"], done["chunk_size"]) == ("unbounded", 1)
