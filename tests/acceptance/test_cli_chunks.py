"""`gapless backfill chunks`: every chunk with its progress, owner, due time and error."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from gapless.ledger import Ledger
from tests.acceptance.commands import Commands
from tests.support import claim, complete, done, fail, open_at

JOB = ("jobs:copy", 1)


@pytest.fixture
async def ledger(gapless: Commands) -> AsyncIterator[Ledger]:
    """A ledger with a backfill whose chunks are in every state except cancelled."""
    gapless.start("copy", "--id", "b", "--range", "0:59", "--max-concurrent", "9")
    ledger = await open_at(gapless.home)
    first, second, third, fourth = await claim(ledger, 4, jobs=(JOB,))
    await complete(ledger, first)
    await ledger.heartbeat([(second, done(13))])
    await fail(ledger, third)
    await fail(ledger, fourth, permanent=True)
    yield ledger
    await ledger.close()


async def test_a_table_for_people(gapless: Commands, ledger: Ledger) -> None:
    listed = gapless("backfill", "chunks", "b")
    head, *rows = listed.stdout.splitlines()
    assert head.split() == [
        "chunk", "partitions", "status", "tries", "done", "owner", "due", "error",
    ]  # fmt: skip
    assert [row.split()[:5] for row in rows] == [
        ["b:0", "0", "to", "9", "COMPLETE"],
        ["b:1", "10", "to", "19", "RUNNING"],
        ["b:2", "20", "to", "29", "FAILED"],
        ["b:3", "30", "to", "39", "ABANDONED"],
        ["b:4", "40", "to", "49", "PENDING"],
        ["b:5", "50", "to", "59", "PENDING"],
    ]
    assert "40%" in rows[1]
    assert " in " in rows[1]
    assert listed.stderr == ""


async def test_numbers_for_scripts(gapless: Commands, ledger: Ledger) -> None:
    (running,) = gapless.json("backfill", "chunks", "b", "--status", "running")
    assert running.pop("due").endswith("Z")
    assert running.pop("fence") > 0
    assert running == {
        "chunk_id": "b:1",
        "chunk_index": 1,
        "partitions": ["10 to 19"],
        "count": 10,
        "done": 4,
        "progress_pct": 40.0,
        "status": "RUNNING",
        "attempts": 0,
        "lost": 0,
        "owner": "worker",
        "error_class": None,
        "error_message": None,
    }
    (failed,) = gapless.json("backfill", "chunks", "b", "--status", "FAILED")
    assert (failed["attempts"], failed["done"], failed["progress_pct"]) == (1, 0, 0.0)
    assert failed["error_class"]


async def test_a_filter_and_a_limit(gapless: Commands, ledger: Ledger) -> None:
    wanted = ("--status", "failed", "--status", "abandoned", "--status", "pending")
    short = gapless("backfill", "chunks", "b", *wanted, "--limit", "3", "--json")
    assert [each["chunk_index"] for each in short.json] == [2, 3, 4]
    assert '"hint":"there are more than these 3' in short.stderr
    none = gapless("backfill", "chunks", "b", "--status", "cancelled")
    assert (none.stdout, none.stderr) == ("", "there are no chunks with status CANCELLED\n")


def test_nothing_is_planned_yet(sqlite_gapless: Commands) -> None:
    sqlite_gapless.start("copy", "--id", "b")
    none = sqlite_gapless("backfill", "chunks", "b")
    assert (none.stdout, none.stderr) == ("", "not planned yet: 5 chunks\n")
    assert "there is no backfill `x`" in sqlite_gapless.refused("backfill", "chunks", "x")
