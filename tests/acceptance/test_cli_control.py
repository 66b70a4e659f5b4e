"""`gapless backfill ls | wait | pause | resume | cancel | retry-failed`, on both ledgers."""

from __future__ import annotations

import pytest

from tests.acceptance.commands import Commands
from tests.support import claim, complete, open_at

JOB = ("jobs:copy", 1)


async def run_some(gapless: Commands, chunks: int, *, finish: int = 0) -> None:
    """Claims chunks as a worker would, and completes some of them."""
    ledger = await open_at(gapless.home)
    try:
        claims = await claim(ledger, chunks, jobs=(JOB,))
        assert len(claims) == chunks
        await complete(ledger, *claims[:finish])
        await ledger.settle()
    finally:
        await ledger.close()


async def test_a_backfill_from_start_to_retry(gapless: Commands) -> None:
    gapless.start("copy", "--id", "one")
    await run_some(gapless, 3, finish=2)

    paused = gapless.json("backfill", "pause", "one")
    assert (paused["state"], paused["state_version"]) == ("PAUSED", 2)
    again = gapless("backfill", "pause", "one")
    assert again.stdout.splitlines()[1].split()[:4] == ["one", "PAUSED", "40.0%", "2/5"]
    assert again.stderr == "\nhint: `gapless backfill resume one` resumes it\n"

    assert gapless.json("backfill", "resume", "one")["state"] == "RUNNING"
    assert gapless.json("backfill", "resume", "one")["state_version"] == 3

    cancelling = gapless("backfill", "cancel", "one")
    assert "cancelling" in cancelling.stdout
    assert "`gapless backfill cancel --force one` ends them now" in cancelling.stderr
    forced = gapless.json("backfill", "cancel", "one", "--force")
    assert forced["state"] == "CANCELLED"
    assert forced["chunks"]["complete"] == 2
    assert gapless.json("backfill", "cancel", "one")["state_version"] == forced["state_version"]

    child = gapless.json("backfill", "retry-failed", "one")
    assert child["parent_backfill_id"] == "one"
    assert (child["partitions"], child["state"]) == (30, "PENDING")
    assert gapless.json("backfill", "retry-failed", "one")["id"] == child["id"]
    other = gapless.json("backfill", "retry-failed", "one", "--request-id", "mine")
    assert other["retry_request_id"] == "mine"
    assert other["id"] != child["id"]
    assert gapless.json("ledger", "check") == {"backfills": 3, "problems": []}


async def test_ls_lists_the_newest_first(sqlite_gapless: Commands) -> None:
    gapless = sqlite_gapless
    for name in ("first", "second", "third"):
        gapless.start("copy", "--id", name)
    gapless("backfill", "cancel", "second")

    listed = gapless("backfill", "ls")
    assert listed.stderr == ""
    head, *rows = listed.stdout.splitlines()
    assert head.split() == ["id", "state", "progress", "chunks", "failing", "created", "what"]
    assert [row.split()[:2] for row in rows] == [
        ["third", "PENDING"],
        ["second", "CANCELLED"],
        ["first", "PENDING"],
    ]
    cancelled = gapless.json("backfill", "ls", "--state", "cancelled")
    assert [each["id"] for each in cancelled] == ["second"]
    short = gapless("backfill", "ls", "--limit", "1", "--json")
    assert [each["id"] for each in short.json] == ["third"]
    assert short.stderr.endswith('"hint":"there are more than these 1: raise `--limit`"}\n')


async def test_an_empty_ledger_has_nothing_to_list(gapless: Commands) -> None:
    gapless("ledger", "migrate")

    assert gapless.json("backfill", "ls") == []
    nothing = gapless("backfill", "ls")
    assert nothing.stdout == ""
    assert nothing.stderr == (
        f"there are no backfills yet in {gapless.home.url}\n\n"
        "hint: `gapless fetch` and `gapless backfill start` create them\n"
    )
    failed = gapless("backfill", "ls", "--state", "failed")
    assert (failed.stdout, failed.stderr) == ("", "there are no backfills in state FAILED\n")


class TestWait:
    @pytest.fixture
    def gapless(self, sqlite_gapless: Commands) -> Commands:
        return sqlite_gapless

    def test_it_returns_when_the_backfill_ends(self, gapless: Commands) -> None:
        gapless.start("copy", "--id", "w")

        with gapless.running("worker", "--until-idle"):
            done = gapless("backfill", "wait", "w")

        assert done.line.startswith("w SUCCEEDED in ")
        assert done.line.endswith(": 5 of 5 chunks complete")
        assert done.stderr == f"ledger: {gapless.home.url}\n"

    def test_a_failed_backfill_exits_with_1(self, gapless: Commands) -> None:
        gapless("backfill", "start", "--job", "jobs:picky", "--range", "0:9", "--id", "f", code=1)

        failed = gapless("backfill", "wait", "f", "--json", code=1)

        assert failed.json["state"] == "FAILED"
        assert '"message":"1 chunk failed: PermanentError: block 3' in failed.stderr

    def test_a_cancelled_backfill_exits_with_1(self, gapless: Commands) -> None:
        gapless.start("copy", "--id", "c")
        gapless("backfill", "cancel", "c")

        cancelled = gapless("backfill", "wait", "c", code=1)

        assert "c CANCELLED in " in cancelled.line
        assert "`gapless backfill retry-failed c` runs what is left" in cancelled.stderr

    def test_the_timeout_ends_the_wait(self, gapless: Commands) -> None:
        gapless.start("copy", "--id", "p")

        late = gapless("backfill", "wait", "p", "--timeout", "10ms", "--json", code=1)

        assert late.json["state"] == "PENDING"

    async def test_it_settles_a_backfill_without_a_worker(self, gapless: Commands) -> None:
        gapless.start("copy", "--id", "s")
        await run_some(gapless, 4)
        gapless("backfill", "cancel", "s")
        await gapless.home.run("UPDATE chunks SET due = 0 WHERE status = 'RUNNING' RETURNING 1")

        cancelled = gapless.json("backfill", "wait", "s", code=1)

        assert cancelled["state"] == "CANCELLED"
