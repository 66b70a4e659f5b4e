"""Derives tables from stored rows, without a request to any node.

Where the tables that `transfers` follows from are stored with all requested checks, adding it to
the sink takes no request for a block. Stored rows are checked again first, so that nothing is
derived from rows that were altered since. Blocks that fail are left unchanged, and the caller
fetches them.

A derived table has the proofs of the rows that it follows from. It is written together with its
blocks, which count its rows; where their records have different proofs, the blocks are fetched.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import NamedTuple

import pyarrow as pa

from gapless.blocks.reproof import record_parts
from gapless.blocks.spec import BlocksSpec
from gapless.chains.derived_rows import counted
from gapless.core.errors import FencedOff
from gapless.core.ranges import RangeSet, Span
from gapless.pipeline.ordering import cells
from gapless.pipeline.unit import cut
from gapless.schema import Table
from gapless.schema.arrow import Tables
from gapless.sinks import Batch, Sink

_WINDOW = 50  # blocks that are checked at once


class _Source(NamedTuple):
    """What is stored of some blocks, and what is recorded of them."""

    tables: list[Table]  # to check the blocks with, also those that nothing is derived from
    proven: frozenset[str]
    unproven: frozenset[str]


@dataclass(frozen=True)
class Derivation:
    """Derives the requested tables of one sink that follow from others, for one backfill."""

    sink: Sink
    spec: BlocksSpec
    threads: Executor
    check: Callable[[], None]  # raises if the run must end now

    async def derive(self, heights: RangeSet, fence: int) -> RangeSet:
        """Derives what it can of the stored heights; returns those that need not be fetched."""
        derived = RangeSet()
        size = self.sink.batch_blocks or self.spec.batch_size
        for span in heights.spans:
            async for part in record_parts(self.sink, self.spec.chain_id, span):
                source = await self._source(part)
                if source is None:
                    continue
                for window in cells(part, size, self.sink.grid, lambda: size):
                    derived |= await self._derive_window(window, source, fence)
        return derived

    async def _source(self, part: Span) -> _Source | None:
        """What is stored of a part; None if what is recorded of its tables differs."""
        records = await self.sink.records(self.spec.chain_id, part)
        wanted, there = self.spec.sources.datasets, {it.dataset for it in records if not it.expired}
        tables = [it for it in self.spec.family.tables if it.name in there and not it.derived_from]
        proofs = {(it.proven, it.unproven) for it in records if it.dataset in wanted}
        return _Source(tables, *proofs.pop()) if len(proofs) == 1 else None

    async def _derive_window(self, window: Span, source: _Source, fence: int) -> RangeSet:
        parts: list[Tables] = []
        flawed: set[int] = set()
        for each in window.windows(_WINDOW):
            self.check()
            found, flaws = await self._derived(each, source)
            parts.append(found)
            flawed |= flaws
        tables = {name: pa.concat_tables([part[name] for part in parts]) for name in parts[0]}
        chain_id, proofs = self.spec.chain_id, (source.proven, source.unproven)
        batch = Batch(chain_id, window, Tables(tables), *proofs)
        written = RangeSet()
        for span in (RangeSet.of(window) - RangeSet.from_members(flawed)).spans:
            try:
                await self.sink.write(cut(batch, span), fence)
            except FencedOff:  # another run has just written it
                continue
            written |= RangeSet.of(span)
        return written

    async def _derived(self, window: Span, source: _Source) -> tuple[Tables, set[int]]:
        """The blocks with their counts, the derived tables, and the heights of flawed rows."""
        chain_id = self.spec.chain_id
        rows = {it.name: await self.sink.read(it, chain_id, window) for it in source.tables}
        loop = asyncio.get_running_loop()
        tables, flawed = await loop.run_in_executor(self.threads, self._examined, rows)
        whole = range(window.first, window.last + 1)
        is_whole = tables[self.spec.family.tables[0].name]["block_number"].to_pylist() == [*whole]
        return tables, flawed if is_whole else {*whole}

    def _examined(self, rows: dict[str, pa.Table]) -> tuple[Tables, set[int]]:
        spec, family = self.spec, self.spec.family
        found = family.rows.examine(rows, spec.chain, spec.chain_id, frozenset(spec.checks))
        derived = family.rows.derive(rows, spec.chain_id)
        anchor = family.tables[0].name
        tables = {anchor: rows[anchor]}
        for table in spec.derived:
            tables[table.name] = derived[table.name]
            tables[anchor] = counted(tables[anchor], table, derived[table.name])
        return Tables(tables), {flaw.height for flaw in found.flaws}
