"""Chunks are planned lazily, in run order, each index once."""

from __future__ import annotations

import pytest

from gapless.core.chunk import Order, Status
from gapless.core.events import BackfillChunkPlanned
from gapless.core.ranges import RangeSet
from gapless.ledger import Ledger
from gapless.ledger.claims import PLAN_AHEAD
from tests.support import (
    Home,
    claim,
    claim_one,
    complete,
    create,
    finish,
    indices,
    plan,
    statuses,
)


async def planned(ledger: Ledger) -> int:
    return (await ledger.backfill("bf")).chunks.planned


async def test_a_claim_plans_at_most_a_few_hundred_ahead(ledger: Ledger) -> None:
    await create(ledger, partitions=1_000_000)
    await claim_one(ledger)
    assert await planned(ledger) == PLAN_AHEAD
    await claim(ledger, 3)
    assert await planned(ledger) == PLAN_AHEAD


async def test_the_next_batch_is_planned_when_the_pending_ones_run_out(ledger: Ledger) -> None:
    await create(ledger, partitions=PLAN_AHEAD + 10, max_concurrent_runs=1000)
    await complete(ledger, *await claim(ledger, PLAN_AHEAD - 1))
    assert indices(await claim(ledger, 3)) == [PLAN_AHEAD - 1, PLAN_AHEAD, PLAN_AHEAD + 1]
    assert await planned(ledger) == PLAN_AHEAD + 10


@pytest.mark.parametrize("order", Order)
@pytest.mark.parametrize("size", [1, 3, 7, 1000])
async def test_the_chunks_tile_the_selection(ledger: Ledger, order: Order, size: int) -> None:
    await create(ledger, partitions=700, chunk_size=size, order=order, max_concurrent_runs=100)
    spans = [each.span for each in await finish(ledger)]
    assert sum(span.size for span in spans) == 700
    assert RangeSet(spans) == RangeSet.of((0, 699))
    assert spans == sorted(spans, reverse=order is Order.NEWEST)


async def test_planning_before_any_claim_starts_the_backfill(ledger: Ledger) -> None:
    await create(ledger)
    assert await plan(ledger, "bf", 4) == 4
    assert await statuses(ledger) == [Status.PENDING] * 4
    assert (await ledger.backfill("bf")).state == "RUNNING"


async def test_planning_continues_after_what_is_planned_and_stops_at_the_end(
    ledger: Ledger,
) -> None:
    await create(ledger, partitions=10)
    assert [await plan(ledger, "bf", 4) for _ in range(4)] == [4, 4, 2, 0]
    assert [chunk.chunk_index for chunk in await ledger.chunks("bf")] == list(range(10))


async def test_newest_first_plans_from_the_end(ledger: Ledger) -> None:
    await create(ledger, partitions=10, order=Order.NEWEST)
    await plan(ledger, "bf", 4)
    assert [chunk.chunk_index for chunk in await ledger.chunks("bf")] == [6, 7, 8, 9]
    assert indices(await claim(ledger, 2)) == [9, 8]


async def test_planning_an_index_twice_changes_nothing(ledger: Ledger, home: Home) -> None:
    """A second controller that has not seen the first one's work plans the same chunks again."""
    await create(ledger, partitions=10)
    await plan(ledger, "bf", 4)
    first = await claim_one(ledger)
    events = await ledger.events("bf")
    await home.run("UPDATE backfills SET planned = 0")
    assert await plan(ledger, "bf", 4) == 4
    assert await ledger.events("bf") == events
    assert await statuses(ledger) == [Status.RUNNING] + [Status.PENDING] * 3
    await complete(ledger, first)


async def test_only_the_missing_chunks_of_a_range_are_planned(ledger: Ledger, home: Home) -> None:
    await create(ledger, partitions=10)
    await plan(ledger, "bf", 4)
    events = await ledger.events("bf")
    await home.run("UPDATE backfills SET planned = 2")
    assert await plan(ledger, "bf", 4) == 4
    assert await statuses(ledger) == [Status.PENDING] * 6
    assert len(await ledger.events("bf")) == len(events) + 2


async def test_each_planned_chunk_is_recorded_with_its_run(ledger: Ledger) -> None:
    await create(ledger, partitions=5, chunk_size=2)
    await plan(ledger, "bf", 9)
    events = [event for event, _ in await ledger.events("bf")]
    chunk_events = [event for event in events if isinstance(event, BackfillChunkPlanned)]
    assert [(event.chunk_index, event.first, event.last) for event in chunk_events] == [
        (0, 0, 1),
        (1, 2, 3),
        (2, 4, 4),
    ]
    assert [event.run_requested.run_key for event in chunk_events] == [
        f"backfill:bf:chunk:{index}" for index in range(3)
    ]


async def test_nothing_is_planned_while_paused(ledger: Ledger) -> None:
    await create(ledger)
    await plan(ledger, "bf", 2)
    await ledger.pause("bf")
    assert await plan(ledger, "bf", 2) == 0
    await ledger.resume("bf")
    assert await plan(ledger, "bf", 2) == 2


async def test_nothing_is_planned_once_a_stop_is_requested(ledger: Ledger) -> None:
    await create(ledger, partitions=1000)
    mine = await claim_one(ledger)
    await ledger.cancel("bf")
    assert await plan(ledger, "bf", 2) == 0
    await complete(ledger, mine)
    await ledger.settle()
    assert await plan(ledger, "bf", 2) == 0
    assert await planned(ledger) == PLAN_AHEAD
