"""Resolves a range of dates to block heights.

Dates are resolved when a fetch starts, among final blocks only, so a date always resolves to the
same height. This needs no extra state: the sink holds the times of stored blocks, and resolving the
same range again takes one call at each end, to the block just outside.

Headers must pass the same checks as blocks that are stored.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime

from gapless.blocks.timeline import Timeline
from gapless.chains import Level, Network, family_of
from gapless.chains.family import Source, Wanted
from gapless.core.errors import BadSelector, SinkError
from gapless.core.heights import Count, Heights, Moment, Tip
from gapless.core.ranges import RangeSet, Span
from gapless.pipeline.block_reader import BlockReader
from gapless.sinks import Sink
from gapless.system import System

_TIME = "block_timestamp"


async def without_dates(
    heights: Heights,
    tip: Tip,
    network: Network,
    source: Source,
    sink: Sink | None,
    system: System,
) -> Heights:
    """Replaces the dates of a range with heights."""
    assert network.chain_id is not None
    with system.executor(1, "gapless-dates") as threads:
        family = family_of(network)
        datasets = frozenset({family.tables[0].name})
        checks = family.level(Level.AUTO, datasets)
        wanted = Wanted(network, network.chain_id, checks, datasets)
        reader = BlockReader(family, source, wanted, threads, system)
        times = _Times(reader, sink, await _stored(reader, sink, tip.final))
        edges = {height for span in times.stored.spans for height in span}
        timeline = Timeline(times.time_of, tip.final, network.block_time, edges)
        return await _Resolver(timeline, tip, times).resolve(heights)


@dataclass(frozen=True)
class _Times:
    """Block times: from the rows of stored blocks, otherwise from checked headers."""

    reader: BlockReader
    sink: Sink | None
    stored: RangeSet

    async def time_of(self, height: int) -> int:
        if self.sink is not None and height in self.stored:
            with suppress(SinkError):  # `verify` reports what is wrong with it
                anchor, block = self.reader.anchor, Span(height, height)
                rows = await self.sink.read(anchor, self.reader.chain_id, block, (_TIME,))
                if rows.num_rows:
                    return int(rows[_TIME][0].as_py())
        unit = await self.reader.fetch(Span(height, height))
        return int(unit.tables[self.reader.anchor.name][_TIME][0].as_py())


async def _stored(reader: BlockReader, sink: Sink | None, final: int) -> RangeSet:
    if sink is None:
        return RangeSet()
    whole = Span(0, final)
    records = await sink.records(reader.chain_id, whole)
    stored = (it.span for it in records if it.dataset == reader.anchor.name)
    return RangeSet(stored) & RangeSet.of(whole)


@dataclass(frozen=True)
class _Resolver:
    """Resolves moments to heights of a chain, or explains why they have none."""

    timeline: Timeline
    tip: Tip
    times: _Times

    async def resolve(self, heights: Heights) -> Heights:
        first, last = heights.first, heights.last
        if isinstance(first, Moment):
            first = await self._first(first)
        if isinstance(last, Moment):
            last = await self._last(last)
        elif isinstance(last, Count):
            last = first + last.blocks - 1
        if isinstance(last, int) and last < first:
            raise BadSelector(
                f"`{heights}` selects no block: the first would be {first:,}, the last {last:,}",
                hint="use a longer period",
            )
        return Heights(first, last)

    async def _first(self, moment: Moment) -> int:
        """The first block at or after the moment."""
        final_time = await self.timeline.end()
        if moment.begins > final_time:
            await self._refuse_future(moment, hint="start earlier")
            raise BadSelector(
                f"no block since `{moment}` is final yet; the latest final block,"
                f" {self.tip.final:,}, is from {_text(final_time)}",
                hint="fetch these blocks later",
            )
        found = await self.timeline.first_since(moment.begins)
        await self._refuse_prehistory(moment, found)
        return found

    async def _last(self, moment: Moment) -> int:
        """The last block within the moment; the head if it is not final yet, clipped later."""
        final_time = await self.timeline.end()
        if moment.begins > final_time:
            await self._refuse_future(moment, hint="write `latest` to fetch to the head")
        if moment.ends > final_time:
            return self.tip.head
        after = await self.timeline.first_since(moment.ends)
        await self._refuse_prehistory(moment, after)
        return after - 1

    async def _refuse_future(self, moment: Moment, *, hint: str) -> None:
        head_time = await self.times.time_of(self.tip.head)
        if moment.begins > head_time:
            raise BadSelector(
                f"`{moment}` is after the head of the chain, block {self.tip.head:,} from"
                f" {_text(head_time)}",
                hint=hint,
            )

    async def _refuse_prehistory(self, moment: Moment, found: int) -> None:
        """Refuses a moment before the first block; a genesis without a time does not count."""
        if found <= 1 and moment.ends <= (start := await self.timeline.start()):
            raise BadSelector(
                f"`{moment}` is before the first block, which is from {_text(start)}",
                hint="omit the start, as in `:latest`, to fetch from the first block",
            )


def _text(time: int) -> str:
    return datetime.fromtimestamp(time, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
