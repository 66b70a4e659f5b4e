"""The stream of one run: units in order, batches, durable writes, progress.

    fetch ─┐
    fetch ─┼─► in order ─► linked ─► batch ─► write ─► progress
    fetch ─┘

While one batch is written, the next is fetched. A height is reported only after its batch is
durable, so a worker that takes over resumes after it. Blocks that do not link are never written:
when a block's parent hash does not match, the chain was reorganised (or a node lied), and
`Flow._mend` refetches, including blocks that are already stored. When the run ends, by an error or
a stop request, the blocks that arrived in order are written first, even if they do not fill a
batch.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import pyarrow as pa

from gapless.core.errors import BrokenSeam, FencedOff, PermanentError, TransientError
from gapless.core.heights import HIGHEST
from gapless.core.ranges import RangeSet, Span
from gapless.core.remedies import ReplaceBranch
from gapless.pipeline.ordering import cells, in_order
from gapless.pipeline.stop import StopSignal
from gapless.pipeline.unit import Unit, batch_of, check_units, cut
from gapless.schema import Table
from gapless.sinks import Batch
from gapless.telemetry import metrics

MENDINGS = 8
"""How often one run repairs a chain that changes while it is read."""


class Units(Protocol):
    """The source of a flow's units."""

    chain_id: int
    reorg_depth: int
    anchor: Table

    @property
    def unit(self) -> int:
        """How many blocks to request at once, as learned so far."""

    async def fetch(self, span: Span, edges: Collection[int] = ()) -> Unit:
        """Fetch the blocks of a span; blocks at the `edges` are read with all their keys."""

    async def hashes(self, span: Span) -> dict[int, bytes]:
        """Return the node's current block hashes; blocks that it lacks are left out."""


class Target(Protocol):
    """What a flow needs from a sink, or from an object that writes to one."""

    batch_blocks: int | None
    grid: int | None

    async def write(self, batch: Batch, fence: int) -> None: ...
    async def read(
        self, table: Table, chain_id: int, span: Span, columns: Collection[str] | None = None
    ) -> pa.Table: ...


@dataclass(frozen=True)
class Sizes:
    """How much a flow holds in memory at a time, and how it treats links."""

    batch_blocks: int = 100
    batch_bytes: int = 64 << 20
    ahead: Callable[[], int] = lambda: 16  # units being fetched or waiting for earlier ones
    linked: bool = True  # whether parent links are checked
    mends_to: int = HIGHEST  # up to here, stored blocks are replaced where the chain has changed
    replaces: bool = False  # whether every block must be written, also if a newer run has stored it


class Flow:
    """Writes the blocks of a span to a sink, under one fence."""

    def __init__(
        self,
        units: Units,
        sink: Target,
        fence: int,
        written: Callable[[Span], Awaitable[None]],
        stop: StopSignal,
        sizes: Sizes = Sizes(),  # noqa: B008 - frozen
    ) -> None:
        self._units = units
        self._sink = sink
        self._fence = fence
        self._written = written
        self._stop = stop
        self._sizes = sizes
        self.writing: Span | None = None  # the span that the sink is writing
        self.unwritten = 0  # blocks that are fetched but not stored yet
        self._next = 0
        self._sampled: int | None = None
        self._has_all_keys = False

    async def run(self, span: Span) -> None:
        """Write every block of the span, and report each batch once it is durable.

        Raises `StopRequested` if it is stopped before the end.
        """
        self._next = span.first
        mended = 0
        while self._next <= span.last:
            self._stop.check()
            try:
                await self._stream(Span(self._next, span.last))
            except BrokenSeam as seam:
                if seam.height > self._sizes.mends_to:
                    raise TransientError(f"not linked yet: {seam}") from seam
                mended += 1
                if mended > MENDINGS:
                    raise TransientError(f"the chain keeps changing: {seam}") from seam
                await self._mend(seam)
            except _Rewind as rewind:
                self._next = min(self._next, max(span.first, rewind.height))

    async def _stream(self, span: Span) -> None:
        before: bytes | None = None
        writing: asyncio.Task[None] | None = None
        self.unwritten = 0  # an earlier stream's blocks are gone
        try:
            async with aclosing(self._batches(span)) as batches:
                async for units in batches:
                    self._rewind_if_keys_appeared(units)
                    if self._sizes.linked:
                        before = check_units(units, before)
                    batch = batch_of(units, self._units.chain_id, linked=self._sizes.linked)
                    if writing is not None:
                        await writing
                    writing = asyncio.create_task(self._store(batch), name="gapless-write")
        finally:
            if writing is not None:
                await writing

    async def _batches(self, span: Span) -> AsyncGenerator[list[Unit], None]:
        """Yield units in order, grouped into batches; the last batch may be smaller."""
        blocks = self._sink.batch_blocks or self._sizes.batch_blocks
        spans = cells(span, blocks, self._sink.grid, lambda: self._units.unit)
        batch: list[Unit] = []
        size = 0
        fetch = partial(self._fetch, edges=tuple(span))
        async with aclosing(in_order(fetch, spans, self._sizes.ahead, self._stop)) as units:
            try:
                async for unit in units:
                    batch.append(unit)
                    size += unit.size
                    end = unit.span.last + 1
                    if (
                        end - batch[0].span.first >= blocks
                        or size >= self._sizes.batch_bytes
                        or (self._sink.grid and end % self._sink.grid == 0)
                    ):
                        yield batch
                        batch, size = [], 0
            except Exception:
                if batch:
                    yield batch
                raise
        if batch:
            yield batch

    async def _fetch(self, span: Span, edges: Collection[int]) -> Unit:
        unit = await self._units.fetch(span, edges)
        self.unwritten += span.size
        return unit

    def _rewind_if_keys_appeared(self, units: list[Unit]) -> None:
        """Go back to the last answer that was read in full when unknown keys first appear."""
        for unit in units:
            if unit.has_all_keys and not self._has_all_keys:
                self._has_all_keys = True
                if self._sampled is not None and self._sampled < unit.span.first:
                    raise _Rewind(self._sampled + 1)
            if unit.sampled is not None:
                self._sampled = unit.sampled

    async def _store(self, batch: Batch) -> None:
        assert batch.span.first <= self._next, "the batch skips blocks"
        self.writing = batch.span
        try:
            await self._write(batch)
        finally:
            self.writing = None
        self._next = batch.span.last + 1
        self.unwritten -= batch.span.size
        await self._written(batch.span)

    async def _write(self, batch: Batch) -> None:
        try:
            with metrics.WRITE_SECONDS.timed():
                await self._sink.write(batch, self._fence)
        except FencedOff as newer:
            if self._sizes.replaces or not newer.stored:
                raise TransientError(f"{newer}; it will be retried") from newer
            left = RangeSet.of(batch.span) - newer.stored
            for span in left.spans:
                await self._write(cut(batch, span))
        else:
            for name, rows in batch.tables.items():
                metrics.ROWS.add(rows.num_rows, str(batch.chain_id), name)

    async def _mend(self, seam: BrokenSeam) -> None:
        """Rewrite the stored blocks that are no longer on the chain, in one write."""
        depth = self._units.reorg_depth
        window = Span(max(0, seam.height - depth), seam.height + depth)
        anchor = self._units.anchor
        columns = ("block_number", anchor.links.hash)
        rows = await self._sink.read(anchor, self._units.chain_id, window, columns)
        heights, hashes = (rows[name].to_pylist() for name in columns)
        stored = dict(zip(heights, hashes, strict=True))
        now = await self._stop.limit(self._units.hashes(window))
        stale = [height for height, hash_ in stored.items() if now.get(height) not in (None, hash_)]
        if not stale:
            return  # the unwritten blocks were stale: they are fetched again
        if stale[0] == window.first > 0:
            raise PermanentError(
                f"the chain changed more than {depth} blocks below {seam.height:,}: the stored"
                " blocks there belong to another branch",
                remedy=ReplaceBranch(),
            )
        whole = Span(stale[0], stale[-1])
        spans = cells(whole, whole.size, None, lambda: self._units.unit)
        fetch, ahead = self._units.fetch, self._sizes.ahead
        async with aclosing(in_order(fetch, spans, ahead, self._stop)) as found:
            units = [unit async for unit in found]
        if not units or units[-1].span.last < whole.last:
            self._stop.check()
        check_units(units, None)
        await self._write(batch_of(units, self._units.chain_id, linked=self._sizes.linked))


class _Rewind(Exception):
    """Resume from this height again."""

    def __init__(self, height: int) -> None:
        super().__init__(height)
        self.height = height
