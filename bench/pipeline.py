"""The pipeline alone: what ordering, linking and batching cost when nothing else does.

Lists of a hundred distinct blocks come from a source that only yields to the loop, are put in
order, checked for links to their parents, and written to a sink that does nothing.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Collection
from typing import cast

from bench.report import Row, at_least, median, per_second
from gapless.chains.evm import tables
from gapless.core.proof import Proof
from gapless.core.ranges import Span
from gapless.pipeline.flow import Flow
from gapless.pipeline.stop import StopSignal
from gapless.pipeline.unit import Unit
from gapless.schema.arrow import Tables, arrow_schema
from gapless.sinks import Batch, Sink

BLOCKS = 400_000
UNIT = 100
ROUNDS = 5
PEER = 929_000


class ReadyUnits:
    """A source that already has everything."""

    chain_id = 1
    anchor = tables.BLOCKS
    reorg_depth = 64
    unit = UNIT

    def __init__(self) -> None:
        rows = Tables({table.name: arrow_schema(table).empty_table() for table in tables.TABLES})
        self._units = [
            Unit(
                Span(first, first + UNIT - 1),
                rows,
                [_hash(height) for height in range(first, first + UNIT)],
                [_hash(height - 1) for height in range(first, first + UNIT)],
                Proof(),
            )
            for first in range(1, BLOCKS + 1, UNIT)
        ]

    async def fetch(self, span: Span, edges: Collection[int] = ()) -> Unit:
        await asyncio.sleep(0)
        return self._units[span.first // UNIT]

    async def hashes(self, span: Span) -> dict[int, bytes]:
        return {}


class Nowhere:
    """A sink that accepts everything and stores nothing."""

    batch_blocks = None
    grid = None

    def __init__(self) -> None:
        self.blocks = 0

    async def write(self, batch: Batch, fence: int) -> None:
        self.blocks += batch.span.size


def _hash(height: int) -> bytes:
    return height.to_bytes(32)


async def measure() -> AsyncIterator[Row]:
    units = ReadyUnits()
    rates = [await _rate(units) for _ in range(ROUNDS)]
    name = f"pipeline alone, lists of {UNIT} blocks, blocks/s"
    yield Row(name, per_second(median(rates)), median(rates), at_least(PEER))


async def _rate(units: ReadyUnits) -> float:
    sink = Nowhere()
    stop = StopSignal(asyncio.get_running_loop().create_future())
    flow = Flow(units, cast("Sink", sink), 1, _reported, stop)
    began = time.perf_counter()
    await flow.run(Span(1, BLOCKS))
    taken = time.perf_counter() - began
    assert sink.blocks == BLOCKS
    return BLOCKS / taken


async def _reported(span: Span) -> None:
    """Ignores the report."""
