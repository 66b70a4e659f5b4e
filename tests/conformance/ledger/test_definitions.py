"""Chunks and events in the database are exactly what the core defines, in both dialects.

The SQL that plans and completes chunks is generated. These tests compare what it writes with the
results of the core's own functions.
"""

from __future__ import annotations

from typing import Any

import pytest

from gapless.core.chunk import Order, Status, bounds, chunk_total, rank
from gapless.core.events import BackfillChunkPlanned, ChunkEnded, Event
from gapless.ledger import Ledger, fragments
from gapless.ledger.rows.event import NewEvent
from tests.support import Home, claim, complete, create, finish, plan

SHAPES = [(1, 1), (10, 1), (10, 3), (10, 10), (10, 99), (1000, 7), (3 * 2**40 + 1, 2**40)]
ID = 'it\'s {a} "test": 100% é'


async def stored(home: Home, kind: type[Event]) -> list[tuple[Any, ...]]:
    """The events of a type, as stored in the table."""
    columns = ", ".join(fragments.columns(NewEvent))
    return await home.run(
        f"SELECT {columns} FROM events WHERE type = '{kind.__name__}' ORDER BY seq"
    )


def as_defined(events: list[Event]) -> list[tuple[Any, ...]]:
    made = [NewEvent.of(event) for event in events]
    return [tuple(getattr(each, name) for name in fragments.columns(NewEvent)) for each in made]


@pytest.mark.parametrize("order", Order)
@pytest.mark.parametrize(("partitions", "size"), SHAPES)
async def test_planned_chunks_and_their_events(
    ledger: Ledger, home: Home, order: Order, partitions: int, size: int
) -> None:
    await create(ledger, ID, partitions=partitions, chunk_size=size, order=order)
    total = chunk_total(partitions, size)
    assert await plan(ledger, ID, total + 1) == total
    spans = [bounds(index, partitions, size, min) for index in range(total)]
    ranks = [rank(index, order.direction) for index in range(total)]
    rows = await home.run("SELECT first, last, rank FROM chunks ORDER BY chunk_index")
    assert rows == [(*span, place) for span, place in zip(spans, ranks, strict=True)]
    planned = [BackfillChunkPlanned(ID, index, *span) for index, span in enumerate(spans)]
    assert await stored(home, BackfillChunkPlanned) == as_defined([*planned])


async def test_events_of_completed_chunks(ledger: Ledger, home: Home) -> None:
    await create(ledger, ID, partitions=120)
    for taken in (await claim(ledger, 3), await claim(ledger, 1)):
        await complete(ledger, *taken)
    await finish(ledger)
    ended: list[Event] = [ChunkEnded(ID, index, Status.COMPLETE) for index in range(120)]
    assert sorted(await stored(home, ChunkEnded)) == sorted(as_defined(ended))


async def test_a_compacted_backfill_is_recognised_by_its_event(ledger: Ledger) -> None:
    await create(ledger, ID, partitions=2)
    await finish(ledger)
    assert await ledger.compact() == 2 + 2
    assert await ledger.compact() == 0
