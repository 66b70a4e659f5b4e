"""Copy rows from a sink to a file in windows, so that memory does not grow with the range.

An export is complete, or it fails. Before anything is written, the sink must hold every block of
the range. Each window must have as many rows as its blocks declare. At the end, the range must not
have changed since the start.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow.compute as pc

from gapless.chains import schema
from gapless.core.errors import Incomplete
from gapless.core.ranges import RangeSet, Span
from gapless.core.remedies import VerifySink
from gapless.export.writers import Writer
from gapless.schema.digest import MODULUS
from gapless.schema.layout import Layout, Window
from gapless.sinks import Sink, Stored

_WINDOW = 100  # blocks, unless the grid of the sink is larger
_PIECE = 5_000  # rows that are converted to text at once


@dataclass(frozen=True)
class Export:
    """The rows of a range of a chain that a layout asks for."""

    sink: Sink
    chain_id: int
    layout: Layout
    span: Span

    async def write_to(self, writer: Writer) -> int:
        """Write all rows and return their number. Raise `Incomplete` if any is missing."""
        before = await self.sink.stored(self.chain_id)
        written = 0
        for span in self.span.windows(self.sink.grid or _WINDOW):
            window = await self._window(span)
            _refuse_losses(span, window, self.layout)
            stored = window[self.layout.table.name]
            for at in range(0, stored.num_rows, _PIECE):
                rows = self.layout.rows(stored.slice(at, _PIECE), window)
                writer.write(rows)
                written += rows.num_rows
        if await self._has_changed(before):
            raise Incomplete(
                f"blocks {self.span} changed during the export",
                hint="export again when nothing writes to them, or export fewer blocks",
            )
        writer.finish()
        return written

    async def _window(self, span: Span) -> Window:
        wanted, tables = read_columns(self.layout), schema()
        return {
            name: await self.sink.read(tables[name], self.chain_id, span, columns)
            for name, columns in wanted.items()
        }

    async def _has_changed(self, before: Sequence[Stored]) -> bool:
        """Whether rows of the range may have changed since these records were read.

        If the fences differ because records were folded, the digests show whether the rows do too.
        """
        after = await self.sink.stored(self.chain_id)
        if self._fences(after) == self._fences(before):
            return False
        here = [it for it in after if it.span.overlap(self.span)]
        if self._heights(here) != self._heights(before):
            return True
        return not all([await self._consists_of(it, before) for it in here])

    async def _consists_of(self, record: Stored, before: Sequence[Stored]) -> bool:
        """Whether a record has the rows of earlier ones, and otherwise only blocks that are new."""
        parts = [it for it in before if it.dataset == record.dataset]
        parts = [it for it in parts if it.span.overlap(record.span)]
        whole, old = RangeSet.of(record.span), RangeSet(it.span for it in parts)
        if old - whole:
            return False
        for span in (whole - old).spans:
            stored = await self.sink.stored(self.chain_id, span)
            parts += [it for it in stored if it.dataset == record.dataset]
        return sum(it.digest for it in parts) % MODULUS == record.digest

    def _heights(self, records: Sequence[Stored]) -> Mapping[str, RangeSet]:
        """Return the blocks of the range by table."""
        found: dict[str, RangeSet] = {}
        for (dataset, _), part in self._fences(records).items():
            found[dataset] = found.get(dataset, RangeSet()) | part
        return found

    def _fences(self, records: Sequence[Stored]) -> Mapping[tuple[str, int], RangeSet]:
        """Return the blocks of the range by table and fence."""
        whole = RangeSet.of(self.span)
        found: dict[tuple[str, int], RangeSet] = {}
        for each in records:
            if part := RangeSet.of(each.span) & whole:
                key = (each.dataset, each.fence)
                found[key] = found.get(key, RangeSet()) | part
        return found


def read_columns(layout: Layout) -> Mapping[str, tuple[str, ...]]:
    """Return the columns to read, by table: those exported, and the row counts to check."""
    anchor = layout.table.anchor
    found = {**layout.beside, layout.table.name: layout.needs}
    counts = [anchor.counts[name] for name in found if name != anchor.name]
    if layout.needs_count_of:
        counts.append(anchor.counts[layout.needs_count_of])
    exported = found.get(anchor.name, ())
    found[anchor.name] = tuple(dict.fromkeys(("block_number", *exported, *counts)))
    return found


async def range_of(sink: Sink, chain_id: int, layout: Layout) -> Span | None:
    """Return the span from the lowest to the highest stored or requested block of the table."""
    name = layout.table.name
    spans = [it.span for it in await sink.stored(chain_id) if it.dataset == name]
    spans += [it.span for it in await sink.requests(chain_id) if name in it.datasets]
    if not spans:
        return None
    return Span(min(it.first for it in spans), max(it.last for it in spans))


async def expired(sink: Sink, chain_id: int, layout: Layout, span: Span) -> RangeSet:
    """Return the blocks of a range whose rows were deleted on purpose."""
    wanted = read_columns(layout)
    records = [it for it in await sink.stored(chain_id) if it.expired and it.dataset in wanted]
    return RangeSet(it.span for it in records) & RangeSet.of(span)


async def lacking(sink: Sink, chain_id: int, layout: Layout, span: Span) -> dict[str, RangeSet]:
    """Return the missing blocks of a range, by the table that lacks them."""
    records = await sink.stored(chain_id)
    wanted = RangeSet.of(span)
    found: dict[str, RangeSet] = {}
    for name in sorted(read_columns(layout), key=schema().order):
        stored = RangeSet(it.span for it in records if it.dataset == name)
        if gaps := wanted - stored:
            found[name] = gaps
            wanted -= gaps
    return found


def _refuse_losses(span: Span, window: Window, layout: Layout) -> None:
    anchor = layout.table.anchor
    blocks = window[anchor.name]
    if blocks.num_rows != span.size:
        raise _lost(f"blocks {span}: {span.size:,} are recorded, {blocks.num_rows:,} are stored")
    for name, rows in window.items():
        declared = None if name == anchor.name else blocks[anchor.counts[name]]
        expected = 0 if declared is None or declared.null_count else pc.sum(declared).as_py()
        if declared is not None and not declared.null_count and rows.num_rows != expected:
            found = f"the blocks declare {expected:,} rows, but {rows.num_rows:,} are stored"
            raise _lost(f"{name} of blocks {span}: {found}")
    counted = layout.needs_count_of
    if counted and blocks[anchor.counts[counted]].null_count:
        raise Incomplete(
            f"{counted} of blocks {span} were not fetched",
            hint=f"fetch these blocks with `{counted}` among the datasets",
        )


def _lost(message: str) -> Incomplete:
    return Incomplete(message, remedy=VerifySink())
