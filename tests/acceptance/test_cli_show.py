"""`gapless backfill show`: everything about a backfill, and why a chunk is not running."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from gapless.ledger import Ledger
from gapless.system import Process
from tests.acceptance.commands import Commands
from tests.support import claim, claim_one, fail, open_at

JOB = ("jobs:copy", 1)


@pytest.fixture
async def ledger(gapless: Commands) -> AsyncIterator[Ledger]:
    ledger = await open_at(gapless.home)
    yield ledger
    await ledger.close()


async def join(ledger: Ledger, **unresolved: str) -> None:
    """Registers a live worker with default slots."""
    await ledger.register("host:1:abc", Process("host", 1, "0"), {"default": 4})
    await ledger.touch_worker(
        "host:1:abc", {name.replace("__", ":"): why for name, why in unresolved.items()}
    )


def why(shown: dict[str, Any]) -> dict[int | None, tuple[str, str]]:
    """The reason and the detail of each chunk; None stands for unplanned ones."""
    return {each["chunk_index"]: (each["reason"], each["detail"]) for each in shown["waiting"]}


async def test_everything_that_a_script_needs(gapless: Commands, ledger: Ledger) -> None:
    gapless.start("copy", "--id", "b")
    await fail(ledger, await claim_one(ledger, jobs=(JOB,)), permanent=True)
    await claim(ledger, 2, jobs=(JOB,))

    shown = gapless.show("b")

    assert shown["id"] == "b"
    assert (shown["state"], shown["state_version"]) == ("RUNNING", 1)
    assert (shown["job"], shown["parent_backfill_id"]) == ("jobs:copy", None)
    assert shown["chunks"] == {
        "total": 5,
        "planned": 5,
        "pending": 2,
        "running": 2,
        "complete": 0,
        "failed": 0,
        "abandoned": 1,
        "cancelled": 0,
    }
    assert (shown["progress_pct"], shown["error"]) == (0.0, None)


async def test_no_worker(gapless: Commands) -> None:
    gapless.start("copy", "--id", "b", "--queue", "backlog")

    assert why(gapless.show("b")) == {None: ("no_worker", "no live worker serves queue `backlog`")}
    page = gapless("backfill", "show", "b")
    assert "5 UNPLANNED  no_worker" in page.stdout
    assert page.stderr == "\nhint: `gapless worker --slots backlog=4` runs it\n"


async def test_a_misspelled_queue(gapless: Commands, ledger: Ledger) -> None:
    gapless.start("copy", "--id", "b", "--queue", "defualt")
    await join(ledger)

    detail = "no live worker serves queue `defualt`; did you mean `default`?"
    assert why(gapless.show("b")) == {None: ("no_worker", detail)}


async def test_leased_no_room_and_unplanned(gapless: Commands, ledger: Ledger) -> None:
    gapless.start("copy", "--id", "b", "--range", "0:9999", "--max-concurrent", "2")
    await join(ledger)
    await claim(ledger, 2, jobs=(JOB,), owner="host:1:abc")

    shown = gapless.show("b", "--limit", "3")

    reasons = why(shown)
    assert reasons[0] == reasons[1] == ("leased", "leased by host:1:abc, 0% done,")
    assert reasons[2] == ("no_room", "2 of 2 runs are active")
    assert reasons[None][0] == "unplanned"
    leased, *_ = shown["waiting"]
    assert leased["until"].endswith("Z")
    assert leased["partitions"] == "0 to 9"
    page = gapless("backfill", "show", "b", "--limit", "3").stdout
    assert "leased by host:1:abc, 0% done, until 20" in page


async def test_backoff_and_claimable(gapless: Commands, ledger: Ledger) -> None:
    gapless.start("copy", "--id", "b", "--range", "0:19")
    await join(ledger)
    await fail(ledger, await claim_one(ledger, jobs=(JOB,)))

    shown = gapless.show("b")

    assert why(shown) == {
        0: ("backoff", "after failure 1: Boom: it broke"),
        1: ("claimable", "waiting for an idle slot"),
    }
    assert shown["waiting"][0]["until"].endswith("Z")


async def test_one_chunk(gapless: Commands, ledger: Ledger) -> None:
    gapless.start("copy", "--id", "b")
    await claim(ledger, 2, jobs=(JOB,))

    assert list(why(gapless.show("b", "--chunk", "1"))) == [1]
    assert "has no chunk 5" in gapless.refused("backfill", "show", "b", "--chunk", "5")


async def test_paused_then_cancelling(gapless: Commands, ledger: Ledger) -> None:
    gapless.start("copy", "--id", "b", "--range", "0:9999")
    await join(ledger)
    await claim(ledger, 1, jobs=(JOB,))

    gapless("backfill", "pause", "b")
    paused = why(gapless.show("b"))
    assert paused[0][0] == "leased"
    assert paused[1] == paused[None] == ("paused", "the backfill is paused")

    gapless("backfill", "cancel", "b")
    cancelling = gapless("backfill", "show", "b")
    assert cancelling.stdout.startswith("b  cancelling  0.0%\n")
    assert why(gapless.show("b"))[None][0] == "cancelling"


async def test_a_job_that_no_worker_can_import(gapless: Commands, ledger: Ledger) -> None:
    gapless.start("copy", "--id", "b")
    await join(ledger, jobs__copy="cannot import `jobs`: No module named 'jobs'")

    reason, detail = why(gapless.show("b"))[None]

    assert reason == "job_unresolved"
    assert detail == "worker host:1:abc: cannot import `jobs`: No module named 'jobs'"


async def test_the_worker_of_another_foreground_backfill_does_not_count(
    sqlite_gapless: Commands,
) -> None:
    gapless = sqlite_gapless
    waiting = gapless.start("copy")
    arguments = ("backfill", "start", "--job", "jobs:held", "--range", "0:9", "--id", "other")
    with gapless.running(*arguments) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "other\n"

        assert why(gapless.show(waiting))[None][0] == "no_worker"
        assert why(gapless.show("other")).keys() <= {None, 0}


async def test_the_page_of_a_failed_backfill(sqlite_gapless: Commands) -> None:
    gapless = sqlite_gapless
    gapless("backfill", "start", "--job", "jobs:picky", "--range", "0:149", "--id", "p", code=1)

    page = gapless("backfill", "show", "p")

    title, blank, *facts = page.stdout.splitlines()
    assert (title, blank) == ("p  FAILED  86.7%", "")
    values = dict(fact.strip().split(None, 1) for fact in facts)
    assert values["job"] == "jobs:picky (version 1)"
    assert values["selection"] == "0:149 (150 partitions)"
    assert values["chunks"] == "15 of up to 10 partitions, oldest first, 4 at once, queue `default`"
    assert values["done"] == "13 complete, 2 abandoned"
    assert values["retry"].startswith(
        "backoff of 2.0s doubling to 1m00s, up to 25% more, abandoned"
    )
    error = "PermanentError: block 3 is \\x1b[31mbroken\\x1b[0m (chunk 0, partitions 3)"
    assert values["error"] == error
    assert page.stderr.startswith("\nhint: `gapless dead ls p` lists what failed")


async def test_a_failed_chunk_shows_its_runs_and_where_the_last_one_failed(
    sqlite_gapless: Commands,
) -> None:
    gapless = sqlite_gapless
    start = ("backfill", "start", "--job", "jobs:stubborn", "--range", "0:9", "--id", "s")
    gapless(*start, "--retry-base", "0", "--retry-limit", "2", code=1)

    shown = gapless.show("s", "--chunk", "0")
    assert [each["attempt"] for each in shown["attempts"]] == [1, 2, 3]
    for each in shown["attempts"]:
        assert each["error_class"] == "ConnectionError"
        assert each["worker"]
        assert each["at"].endswith("Z")
        assert "in stubborn" in each["traceback"]
        assert "calls.py" not in each["traceback"]  # nothing of the engine above the job
        assert "secret" not in each["traceback"] + each["error_message"]
    assert "attempts" not in gapless.show("s")

    page = gapless("backfill", "show", "s", "--chunk", "0").stdout
    letter = gapless("dead", "show", "s:0").stdout
    for text in (page, letter):
        assert text.count(": ConnectionError: https://node.example/… does not answer") == 3
        assert text.count("in stubborn") == 1
        assert "attempt 3 by " in text
    assert letter.startswith("s:0\n\n  job         jobs:stubborn\n  missing     0 to 9 (10 part")
    assert gapless.json("dead", "show", "s:0")["attempts"] == shown["attempts"]
    assert "`s:1` is not a dead letter" in gapless.refused("dead", "show", "s:1")
