"""Compares a sink with a stream, and publishes the difference, some blocks at a time.

What the sink holds minus what the stream records is missing. The sink's changes say where to look
next, and tell of blocks that were removed. A feeder keeps no knowledge beyond its connection: it
begins with the record of the stream and the records of the sink, so a stream that was emptied, or
replaced by an older copy, is simply one that lacks more.

    begin ──► read changes ──► retract ──► publish blocks ───┐
                   ▲                                         │
                   └─────────────────────────────────────────┘

The position in the changes is recorded with the retractions that they ask for, in one step. What is
missing needs no position: it is found again.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace

from gapless.core.errors import ChangesPruned, Damaged
from gapless.core.heights import HIGHEST
from gapless.core.ranges import RangeSet, Span
from gapless.publishers.entries import sizes
from gapless.publishers.plan import diverged, next_span, removed, withdrawals
from gapless.publishers.publisher import OutgoingBlock, Publisher, Record
from gapless.publishers.rows import StoredBlocks
from gapless.sinks.changes import CHANGES_LIMIT, Change
from gapless.telemetry import log, metrics

GROUP_BYTES = 1 << 20
"""The aim for one step: Redis serves nobody else while it runs."""
_WINDOW_BYTES = 8 * GROUP_BYTES  # the aim for what is read at once
_MOST_BLOCKS = 500
_MOST_WITHDRAWALS = 500


@dataclass(frozen=True)
class FeederOptions:
    """What to publish, and under which names."""

    name: str
    reader: str  # the name by which the sink knows it
    start: int | None  # the first height; None: the lowest one that the sink holds or wants
    depth: int  # blocks below the highest one whose hashes the stream records
    lease: float = 10.0  # seconds


class Feeder:
    """Publishes what a sink holds and a stream lacks, while its connection leads."""

    def __init__(self, blocks: StoredBlocks, stream: Publisher, options: FeederOptions) -> None:
        self._blocks, self._stream, self._options = blocks, stream, options
        self._sink, self._chain, self._name = blocks.sink, blocks.chain_id, options.name
        self.record = Record()
        self._held = RangeSet()
        self._at_once = 16  # blocks to read, from the sizes of the last ones
        self._aside: dict[Span, str] = {}
        self._began = False

    @property
    def missing(self) -> RangeSet:
        """The blocks that can be published and are not."""
        start = self.record.start
        wanted = RangeSet() if start is None else RangeSet.of((start, HIGHEST))
        return (self._held - self.record.heights - RangeSet(self._aside)) & wanted

    async def turn(self) -> int | None:
        """Take one step. Returns the published or retracted blocks; None if another one leads."""
        if not await self._stream.lead(self._options.lease):
            return None
        if not self._began:
            await self._begin()
        changes = await self._sink.changes(self._chain, self.record.position, CHANGES_LIMIT)
        retracted = await self._follow(changes) if changes else 0
        return retracted + await self._publish()

    async def has_changes(self) -> bool:
        """Whether the sink has changed since the last turn."""
        return bool(await self._sink.changes(self._chain, self.record.position, 1))

    async def _begin(self) -> None:
        """Read both records, and compare the newest hashes: changes may be lost, rows are not."""
        record = await self._stream.record()
        position = await self._first_position(record)
        self.record = replace(record, sink=self._sink.id, position=position)
        self._held = await self._blocks.held(Span(0, HIGHEST))
        await self._settle_start()
        await self._retract({**await self._diverged(RangeSet())}, position)
        await self._name_expired()
        self._began = True

    async def _first_position(self, record: Record) -> int:
        """Where to read changes from: where the stream says, if the sink still has them."""
        known = await self._sink.add_change_reader(self._chain, self._options.reader)
        if record.sink != self._sink.id or record.position <= known:
            return known
        try:
            await self._sink.changes(self._chain, record.position, 1)
        except ChangesPruned:  # the sink was restored from a copy
            return known
        return record.position

    async def _settle_start(self) -> None:
        """Record the first height of interest, once there is one."""
        start = self._options.start
        if start is None:
            wanted = [it.span.first for it in await self._sink.requests(self._chain)]
            lowest = [self._held.spans[0].first] if self._held else []
            start = min([*wanted, *lowest], default=None)
        if start is not None:
            self.record = replace(self.record, start=start)
            await self._stream.begin(self._sink.id, self.record.position, start)

    async def _follow(self, changes: Sequence[Change]) -> int:
        """Look again where the sink has changed, and take back what it no longer holds."""
        touched = RangeSet(each.span for each in changes)
        for span in touched.spans:
            self._held = (self._held - RangeSet.of(span)) | await self._blocks.held(span)
        if self._held and self._held.spans[0].first < (self.record.start or HIGHEST):
            await self._settle_start()
        gone = {**removed(self.record, changes), **await self._diverged(touched)}
        return await self._retract(gone, changes[-1].position)

    async def _diverged(self, gone: RangeSet) -> dict[int, bytes]:
        links = self.record.links
        if not links:
            return {}
        near = Span(max(0, min(links) - 1), max(links) + 1)
        if gone and not gone.overlaps(near):
            return {}
        return diverged(links, await self._blocks.links(near), gone)

    async def _retract(self, gone: dict[int, bytes | None], position: int) -> int:
        """Retract blocks, the newest first; the last step records the position."""
        left = withdrawals(gone)
        while len(left) > _MOST_WITHDRAWALS:
            await self._stream.retract(left[:_MOST_WITHDRAWALS], None)
            left = left[_MOST_WITHDRAWALS:]
        await self._stream.retract(left, position)
        links = {at: link for at, link in self.record.links.items() if at not in gone}
        heights = self.record.heights - RangeSet.from_members(gone)
        self.record = replace(self.record, heights=heights, links=links, position=position)
        await self._sink.acknowledge_changes(self._chain, self._options.reader, position)
        if gone:
            first, last = min(gone), max(gone)
            log(logging.INFO, "blocks_retracted", publisher=self._name, first=first, last=last)
        return len(gone)

    async def _publish(self) -> int:
        """Publish the next blocks, unless nothing is missing or it is just being replaced."""
        top = max(self._held.spans[-1].last if self._held else 0, self.record.head or 0)
        span = next_span(self.missing, top)
        if span is None:
            return 0
        span = Span(span.first, min(span.last, span.first + self._at_once - 1))
        try:
            blocks = await self._blocks.read(span)
        except Damaged as error:
            await self._set_aside(error.span.overlap(span) or span, str(error))
            return 0
        if blocks is None:  # a change will tell
            return 0
        keep_from = max(0, top - self._options.depth)
        await self._stream.publish(*_groups(blocks), keep_from=keep_from)
        self._note(blocks, keep_from)
        return len(blocks)

    def _note(self, blocks: Sequence[OutgoingBlock], keep_from: int) -> None:
        links = {at: link for at, link in self.record.links.items() if at >= keep_from}
        links |= {each.height: each.link for each in blocks if each.height >= keep_from}
        span = Span(blocks[0].height, blocks[-1].height)
        heights = self.record.heights | RangeSet.of(span)
        self.record = replace(self.record, heights=heights, links=links)
        metrics.PUBLISHED_BLOCKS.add(len(blocks), self._name)
        entries = sum(len(each.transactions) + 1 for each in blocks)
        metrics.PUBLISHED_ENTRIES.add(entries, self._name)
        size = max(1, sum(sizes(blocks)) // len(blocks))
        self._at_once = max(1, min(_MOST_BLOCKS, _WINDOW_BYTES // size))

    async def _name_expired(self) -> None:
        """List the blocks that the stream lacks, and that the sink has no rows of any more."""
        start = self.record.start or 0
        lost = await self._blocks.expired(Span(start, HIGHEST)) - self.record.heights
        self._aside = dict.fromkeys(lost.spans, "the rows have expired from the sink")
        await self._stream.set_aside(self._aside)

    async def _set_aside(self, span: Span, why: str) -> None:
        self._aside[span] = why
        await self._stream.set_aside(self._aside)


def _groups(blocks: Sequence[OutgoingBlock]) -> list[list[OutgoingBlock]]:
    """Blocks in groups of about the size that one step should have."""
    found: list[list[OutgoingBlock]] = [[]]
    room = GROUP_BYTES
    for block, size in zip(blocks, sizes(blocks), strict=True):
        if found[-1] and size > room:
            found.append([])
            room = GROUP_BYTES
        found[-1].append(block)
        room -= size
    return found
