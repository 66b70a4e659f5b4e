"""Reads blocks from a sink, each as of one moment.

The rows of a block are in several tables, and another process may replace the block between two
reads. Every write and every retraction changes the records of its range, so rows are used only if
the records are the same before and after.
"""

from __future__ import annotations

import asyncio
from functools import reduce

from gapless.core.ranges import RangeSet, Span
from gapless.publishers.entries import HEIGHT, EntryTables
from gapless.publishers.publisher import Link, OutgoingBlock
from gapless.sinks import Sink, Stored


class StoredBlocks:
    """The blocks of one chain in a sink."""

    def __init__(self, sink: Sink, chain_id: int, tables: EntryTables) -> None:
        self.sink, self.chain_id, self.tables = sink, chain_id, tables

    async def held(self, span: Span) -> RangeSet:
        """The heights of a span whose rows are all there."""
        return self._whole(await self.sink.records(self.chain_id, span)) & RangeSet.of(span)

    async def expired(self, span: Span) -> RangeSet:
        """The heights of a span whose rows were deleted after they were stored."""
        records = await self.sink.records(self.chain_id, span)
        return RangeSet(it.span for it in records if it.expired) & RangeSet.of(span)

    async def links(self, span: Span) -> dict[int, Link]:
        """The hashes of the stored blocks of a span."""
        anchor = self.tables.anchor
        names = (HEIGHT, *anchor.links)
        rows = await self.sink.read(anchor, self.chain_id, span, names)
        heights, hashes, parents = (rows[name].to_pylist() for name in names)
        return dict(zip(heights, map(Link, hashes, parents), strict=True))

    async def read(self, span: Span) -> list[OutgoingBlock] | None:
        """The blocks of a span; None if they have changed meanwhile, or are not all there."""
        before = await self.sink.records(self.chain_id, span)
        if RangeSet.of(span) - self._whole(before):
            return None
        rows = {
            table.name: await self.sink.read(table, self.chain_id, span, self.tables.columns(table))
            for table in self.tables.all
        }
        if await self.sink.records(self.chain_id, span) != before:
            return None
        return await asyncio.to_thread(self.tables.outgoing, rows, span)

    def _whole(self, records: list[Stored]) -> RangeSet:
        names = [table.name for table in self.tables.all]
        there = [it for it in records if not it.expired]
        held = (RangeSet(it.span for it in there if it.dataset == name) for name in names)
        return reduce(RangeSet.__and__, held)
