"""The stream of one run: units in order, batches, durable writes, progress.

    fetch ─┐
    fetch ─┼─► in order ─► linked ─► batch ─► write ─► progress
    fetch ─┘

While one batch is written the next is fetched. A height is reported only once its batch is
durable, so whoever takes over resumes after it. Nothing is written that does not link: where two
blocks do not fit, the chain was reorganised (or a node lied), and `mend` asks again, also for what
is stored already. However it ends, by an error or because somebody asks it to stop, what arrived
in order before that is written first, be it less than a batch.
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
from gapless.core.ranges import RangeSet, Span
from gapless.core.remedies import ReplaceBranch
from gapless.pipeline.ordering import cells, in_order
from gapless.pipeline.stop import Stop
from gapless.pipeline.unit import Unit, batch_of, check_units, cut
from gapless.schema import Table
from gapless.sinks import Batch
from gapless.telemetry import metrics

MENDINGS = 8
"""How often one run takes up a chain that changes under its hands."""


class Units(Protocol):
    """Where a flow gets its units from."""

    chain_id: int
    reorg_depth: int
    anchor: Table

    @property
    def unit(self) -> int:
        """How many blocks to ask for at once, by what was learned so far."""

    async def fetch(self, span: Span, edges: Collection[int] = ()) -> Unit:
        """The blocks of a span; those at the `edges` are read with all their keys."""

    async def hashes(self, span: Span) -> dict[int, bytes]:
        """The hashes that the node has now, of the blocks that it has."""


class Target(Protocol):
    """What a flow asks of a sink, or of what writes to one."""

    batch_blocks: int | None
    grid: int | None

    async def write(self, batch: Batch, fence: int) -> None: ...
    async def read(
        self, table: Table, chain_id: int, span: Span, columns: Collection[str] | None = None
    ) -> pa.Table: ...


@dataclass(frozen=True)
class Sizes:
    """How much is held at a time."""

    batch_blocks: int = 100
    batch_bytes: int = 64 << 20
    ahead: Callable[[], int] = lambda: 16  # units under way or waiting for their turn
    linked: bool = True  # whether parent links are checked


class Flow:
    """Brings the blocks of a span into a sink, under one fence."""

    def __init__(
        self,
        units: Units,
        sink: Target,
        fence: int,
        written: Callable[[Span], Awaitable[None]],
        stop: Stop,
        sizes: Sizes = Sizes(),  # noqa: B008 - frozen
    ) -> None:
        self._units = units
        self._sink = sink
        self._fence = fence
        self._written = written
        self._stop = stop
        self._sizes = sizes
        self.writing: Span | None = None  # what the sink is busy with
        self.at_hand = 0  # blocks that were fetched and are not stored yet
        self._next = 0
        self._sampled: int | None = None
        self._kept = False

    async def run(self, span: Span) -> None:
        """Writes every block of the span; each batch that is durable is reported.

        Raises `StopRequested` if it was stopped before.
        """
        self._next = span.first
        mended = 0
        while self._next <= span.last:
            self._stop.check()
            try:
                await self._stream(Span(self._next, span.last))
            except BrokenSeam as seam:
                mended += 1
                if mended > MENDINGS:
                    raise TransientError(f"the chain keeps changing: {seam}") from seam
                await self._mend(seam)
            except _Rewind as back:
                self._next = min(self._next, max(span.first, back.height))

    async def _stream(self, span: Span) -> None:
        before: bytes | None = None
        writing: asyncio.Task[None] | None = None
        self.at_hand = 0  # whatever an earlier stream had is gone with it
        try:
            async with aclosing(self._batches(span)) as batches:
                async for units in batches:
                    self._look_for_keys(units)
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
        """Units in order, as many together as one write takes; the last may be fewer."""
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
        self.at_hand += span.size
        return unit

    def _look_for_keys(self, units: list[Unit]) -> None:
        """Goes back to the last answer that was read in full, once unknown keys have appeared."""
        for unit in units:
            if unit.kept and not self._kept:
                self._kept = True
                if self._sampled is not None and self._sampled < unit.span.first:
                    raise _Rewind(self._sampled + 1)
            if unit.sampled is not None:
                self._sampled = unit.sampled

    async def _store(self, batch: Batch) -> None:
        assert batch.span.first <= self._next, "a batch that leaves blocks out"
        self.writing = batch.span
        try:
            await self._write(batch)
        finally:
            self.writing = None
        self._next = batch.span.last + 1
        self.at_hand -= batch.span.size
        await self._written(batch.span)

    async def _write(self, batch: Batch) -> None:
        try:
            with metrics.WRITE_SECONDS.timed():
                await self._sink.write(batch, self._fence)
        except FencedOff as newer:
            if not newer.stored:
                raise TransientError(f"{newer}; it will be taken up again") from newer
            left = RangeSet.of(batch.span) - newer.stored
            for span in left.spans:
                await self._write(cut(batch, span))
        else:
            for name, rows in batch.tables.items():
                metrics.ROWS.add(rows.num_rows, str(batch.chain_id), name)

    async def _mend(self, seam: BrokenSeam) -> None:
        """Writes again what is stored and is no longer so on the chain, all of it at once."""
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
            return  # what was about to be written was: it is asked for again
        if stale[0] == window.first > 0:
            raise PermanentError(
                f"the chain changed more than {depth} blocks below {seam.height:,}: the stored"
                " blocks there are of another branch",
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
    """Go on from this height again."""

    def __init__(self, height: int) -> None:
        super().__init__(height)
        self.height = height
