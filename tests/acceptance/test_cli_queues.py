"""`gapless queues` and `gapless queues pause | resume`, on both ledgers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator

import pytest

from gapless.ledger import Ledger
from tests.acceptance.commands import GAPLESS, Commands
from tests.support import claim, complete, fail, open_at
from tests.waiting import eventually

JOB = ("jobs:copy", 1)
HEAD = (
    "queue state active slots pending retry next retry processed failed dead per minute oldest wait"
)
RESUME = "\nhint: `gapless queues resume backlog` resumes it\n"


@pytest.fixture
async def ledger(gapless: Commands) -> AsyncIterator[Ledger]:
    """The ledger of the command line, with a backfill in each of two queues."""
    gapless.start("copy", "--id", "history", "--queue", "backlog", "--range", "0:99")
    gapless.start("copy", "--id", "live", "--queue", "priority")
    opened = await open_at(gapless.home)
    yield opened
    await opened.close()


async def test_queues_are_listed_with_their_numbers(gapless: Commands, ledger: Ledger) -> None:
    done, dead, failed, _ = await claim(ledger, 4, jobs=(JOB,), queues=("backlog",))
    await complete(ledger, done)
    await fail(ledger, dead, permanent=True)
    await fail(ledger, failed)

    backlog, priority = gapless.json("queues")

    assert backlog.pop("next_retry_at").endswith("Z")
    assert 0 <= backlog.pop("oldest_wait_seconds") < 60
    assert 0 <= backlog.pop("completed_per_minute") <= 1
    assert backlog == {
        "name": "backlog",
        "paused": False,
        "paused_at": None,
        "active": 1,
        "slots": 0,
        "pending": 6,
        "retry": 1,
        "processed": 1,
        "failed": 2,
        "dead": 1,
    }
    assert (priority["name"], priority["pending"], priority["retry"]) == ("priority", 5, 0)
    assert priority["next_retry_at"] is None
    listed = gapless("queues")
    head, first, second = listed.stdout.splitlines()
    assert head.split() == HEAD.split()
    assert first.split()[:6] == ["backlog", "open", "1", "0", "6", "1"]
    assert second.split()[:7] == ["priority", "open", "0", "0", "5", "0", "-"]
    assert listed.stderr == ""
    assert gapless("queues", "ls").stdout.splitlines()[0] == head


async def test_a_queue_is_paused_and_resumed(gapless: Commands, ledger: Ledger) -> None:
    paused = gapless("queues", "pause", "backlog")
    assert paused.stdout.splitlines()[1].split()[:2] == ["backlog", "paused"]
    assert paused.stderr == RESUME
    again = gapless("queues", "pause", "backlog")
    assert again.stderr == f"queue `backlog` is already paused\n{RESUME}"
    assert gapless("queues").stderr == RESUME
    assert await claim(ledger, jobs=(JOB,), queues=("backlog",)) == []

    shown = gapless.json("backfill", "show", "history")
    assert shown["queue_paused"]
    assert [each["reason"] for each in shown["waiting"]] == ["queue_paused"]
    assert shown["waiting"][0]["detail"] == "queue `backlog` is paused"
    page = gapless("backfill", "show", "history")
    assert "queue `backlog` (paused)" in page.stdout
    assert page.stderr == "\nhint: `gapless queues resume backlog` resumes its queue\n"
    assert not gapless.json("backfill", "show", "live")["queue_paused"]

    resumed = gapless.json("queues", "resume", "backlog")
    assert (resumed["name"], resumed["paused"]) == ("backlog", False)
    assert gapless("queues", "resume", "backlog").stderr == "queue `backlog` is not paused\n"
    assert len(await claim(ledger, jobs=(JOB,), queues=("backlog",))) == 1


async def test_an_unknown_queue_is_refused(gapless: Commands, ledger: Ledger) -> None:
    for command in ("pause", "resume"):
        assert gapless.refused("queues", command, "backlgo") == (
            "error: there is no queue `backlgo`\n\n"
            "hint: the queues are: `backlog`, `priority`; `gapless queues` shows them\n"
        )
    answer = gapless("queues", "pause", "backlgo", "--json", code=2)
    assert answer.json["error"]["code"] == "not_found"
    misplaced = ("queues", "--ledger", gapless.home.url, "pause", "backlog")
    assert "unexpected extra argument" in gapless.refused(*misplaced)


def test_an_empty_ledger_has_no_queues(sqlite_gapless: Commands) -> None:
    sqlite_gapless("ledger", "migrate")
    assert sqlite_gapless.json("queues") == []
    nothing = sqlite_gapless("queues")
    assert nothing.stdout == ""
    assert nothing.stderr == (
        f"there are no queues yet in {sqlite_gapless.home.url}\n\n"
        "hint: backfills and workers create them\n"
    )


async def test_a_worker_leaves_a_paused_queue_alone_until_it_is_resumed(
    sqlite_gapless: Commands,
) -> None:
    gapless = sqlite_gapless
    gapless.start("copy", "--id", "c")
    gapless("queues", "pause", "default")
    assert gapless.json("worker", "--poll", "50ms", "--until-idle")["completed"] == 0
    with gapless.running("worker", "--poll", "50ms"):
        await eventually(lambda: gapless.json("queues")[0]["slots"] == 4)
        gapless("queues", "resume", "default")
        gapless("backfill", "wait", "c")
    (queue,) = gapless.json("queues")
    assert (queue["processed"], queue["pending"]) == (5, 0)


async def test_a_command_in_the_foreground_says_that_its_queue_is_paused(
    sqlite_gapless: Commands,
) -> None:
    gapless = sqlite_gapless
    gapless.start("copy", "--id", "first")
    gapless("queues", "pause", "default")
    start = ("backfill", "start", "--job", "jobs:copy", "--range", "0:9", "--id", "second")
    with gapless.running(*start, command=GAPLESS) as command:
        resume = "`gapless queues resume default` resumes it"
        said = f"queue `default` is paused; {resume}"
        await eventually(lambda: said in gapless.stderr(), seconds=60)
        gapless("queues", "resume", "default")
        await asyncio.to_thread(command.communicate, timeout=60)
    assert command.returncode == 0
    assert json.loads(gapless("backfill", "show", "second", "--json").stdout)["state"] == (
        "SUCCEEDED"
    )
