"""Lists show the newest first, pages are limited, and counts agree with the rows."""

from __future__ import annotations

import msgspec
import pytest

from gapless.core.chunk import Status
from gapless.core.retry import RetryPolicy
from gapless.ledger import Ledger, views
from gapless.ledger.groups import Hook
from tests.support import Clock, claim, complete, create, done, fail, finish, plan


async def test_backfills_are_listed_newest_first(ledger: Ledger, clock: Clock) -> None:
    for name in ("first", "second", "third"):
        await create(ledger, name)
        clock.now += 1
    assert [each.id for each in await ledger.backfills()] == ["third", "second", "first"]
    assert [each.id for each in await ledger.backfills(limit=2)] == ["third", "second"]


async def test_backfills_of_one_moment_are_listed_by_id(ledger: Ledger) -> None:
    for name in ("b", "c", "a"):
        await create(ledger, name)
    assert [each.id for each in await ledger.backfills()] == ["c", "b", "a"]


async def test_backfills_are_filtered_by_state(ledger: Ledger) -> None:
    for name in ("done", "paused", "pending"):
        await create(ledger, name, partitions=1)
    await finish(ledger, only="done")
    await ledger.pause("paused")
    for state, name in (("SUCCEEDED", "done"), ("PAUSED", "paused"), ("PENDING", "pending")):
        assert [each.id for each in await ledger.backfills(state=state)] == [name]
    assert await ledger.backfills(state="FAILED") == []


async def test_chunks_are_shown_by_index_within_a_window(ledger: Ledger) -> None:
    await create(ledger, partitions=10)
    await plan(ledger, "bf", 10)
    assert [chunk.chunk_index for chunk in await ledger.chunks("bf", 3, 5)] == [3, 4, 5]
    assert await ledger.chunks("no such") == []


async def test_open_chunks_are_sorted_as_running_then_failed_by_due_time_then_pending(
    ledger: Ledger, clock: Clock
) -> None:
    await create(ledger, partitions=8, max_concurrent_runs=9)
    claims = await claim(ledger, 5)
    await complete(ledger, claims[0])
    await fail(ledger, claims[3])
    clock.now += 1
    await fail(ledger, claims[1])
    shown = await ledger.open_chunks("bf", 100)
    assert [(chunk.chunk_index, chunk.status) for chunk in shown] == [
        (2, Status.RUNNING),
        (4, Status.RUNNING),
        (3, Status.FAILED),
        (1, Status.FAILED),
        (5, Status.PENDING),
        (6, Status.PENDING),
        (7, Status.PENDING),
    ]
    assert len(await ledger.open_chunks("bf", 3)) == 3


async def test_chunks_are_listed_by_status(ledger: Ledger) -> None:
    await create(ledger, partitions=9, max_concurrent_runs=9)
    claims = await claim(ledger, 6)
    await complete(ledger, claims[0], claims[1])
    await fail(ledger, claims[4])
    await fail(ledger, claims[3], permanent=True)

    async def listed(*statuses: Status, limit: int = 100) -> list[int]:
        return [it.chunk_index for it in await ledger.chunks_with("bf", statuses, limit)]

    assert await listed(Status.COMPLETE) == [0, 1]
    assert await listed(Status.RUNNING) == [2, 5]
    assert await listed(Status.ABANDONED) == [3]
    assert await listed(Status.FAILED) == [4]
    assert await listed(Status.PENDING) == [6, 7, 8]
    assert await listed(Status.CANCELLED) == []
    assert await listed(Status.FAILED, Status.ABANDONED, Status.COMPLETE, limit=3) == [4, 3, 0]
    assert [it.chunk_index for it in await ledger.chunks("bf", limit=2)] == [0, 1]


async def test_hooks_of_groups_are_left_out_unless_they_fail(ledger: Ledger) -> None:
    hook = msgspec.json.encode(Hook("hook", 1, "default", RetryPolicy())).decode()
    await create(ledger, "mine", partitions=1, group="g", hook=hook)
    await finish(ledger, only="mine")
    (started,) = await ledger.close_epochs()
    assert {each.id for each in await ledger.backfills()} == {"mine", started.id}
    assert [each.id for each in await ledger.backfills(hooks=False, limit=1)] == ["mine"]
    await fail(ledger, (await claim(ledger, jobs=(("hook", 1),)))[0], permanent=True)
    await ledger.settle()
    assert {each.id for each in await ledger.backfills(hooks=False)} == {"mine", started.id}


async def test_the_counts_add_up_in_every_state(ledger: Ledger) -> None:
    await create(ledger, partitions=20, chunk_size=2, max_concurrent_runs=9)
    first, second, third, _ = await claim(ledger, 4)
    await complete(ledger, first)
    await fail(ledger, second, permanent=True)
    await fail(ledger, third)
    counts = (await ledger.backfill("bf")).chunks
    assert (counts.complete, counts.abandoned, counts.failed, counts.running) == (1, 1, 1, 1)
    assert counts.pending == 6
    await ledger.cancel("bf")
    counts = (await ledger.backfill("bf")).chunks
    assert (counts.cancelled, counts.running, counts.pending, counts.failed) == (7, 1, 0, 0)
    assert counts.total == counts.planned == 10


async def test_progress_counts_chunks_of_the_backfill_and_blocks_of_the_chunk(
    ledger: Ledger,
) -> None:
    await create(ledger, partitions=12, chunk_size=4)
    first, second, _ = await claim(ledger, 3)
    await complete(ledger, first)
    await ledger.heartbeat([(second, done(4))])
    assert (await ledger.backfill("bf")).progress_pct == 33.33
    assert [chunk.progress_pct for chunk in await ledger.chunks("bf")] == [100, 25, 0]


async def test_events_are_read_in_order_beyond_one_page(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(views, "PAGE", 50)
    await create(ledger, partitions=148)
    await plan(ledger, "bf", 148)
    events = await ledger.events("bf")
    assert len(events) == 1 + 148 + 1
    seqs = [row.seq for _, row in events]
    assert seqs == sorted(set(seqs))
