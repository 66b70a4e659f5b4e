"""Verifies stored blocks again from their own rows, without a request to any node.

Ranges that were stored with fewer checks than requested now, by a lower level or an older version,
need not be fetched again: the blocks are rebuilt from their rows and checked here. Checks that pass
are added to the sink's records. Blocks that fail, or that rows alone cannot prove, are left
unchanged, and the caller fetches them.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import reduce
from operator import and_

from gapless.blocks.holding import suffices
from gapless.blocks.spec import BlocksSpec
from gapless.core.errors import FencedOff
from gapless.core.proof import Proof
from gapless.core.ranges import RangeSet, Span
from gapless.schema.arrow import Tables
from gapless.sinks import Sink

_WINDOW = 50  # blocks held in memory at once


@dataclass(frozen=True)
class Reproof:
    """Verifies blocks of one sink again, for one backfill."""

    sink: Sink
    spec: BlocksSpec
    threads: Executor
    check: Callable[[], None]  # raises if the run must end now

    async def prove(self, weak: RangeSet, fence: int) -> RangeSet:
        """Proves what it can of the stored heights; returns those that need not be fetched."""
        proven = RangeSet()
        for span in weak.spans:
            async for part in record_parts(self.sink, self.spec.chain_id, span):
                self.check()
                proven |= await self._prove_part(part, fence)
        return proven

    async def _prove_part(self, part: Span, fence: int) -> RangeSet:
        proofs: list[Proof] = []
        flawed: set[int] = set()
        for window in part.windows(_WINDOW):
            self.check()
            proof, flaws = await self._examined(window)
            if len(flaws) < window.size:
                proofs.append(proof)
            flawed |= flaws
        sound = RangeSet.of(part) - RangeSet.from_members(flawed)
        endorsed = RangeSet()
        for span in sound.spans:
            if await self._endorse(span, reduce(and_, proofs), fence):
                endorsed |= RangeSet.of(span)
        return endorsed

    async def _examined(self, window: Span) -> tuple[Proof, set[int]]:
        chain_id, family = self.spec.chain_id, self.spec.family
        tables = Tables(
            {
                table.name: await self.sink.read(table, chain_id, window)
                for table in family.tables
                if table.name in self.spec.datasets
            }
        )
        found = await asyncio.get_running_loop().run_in_executor(
            self.threads,
            family.rows.examine,
            tables,
            self.spec.chain,
            chain_id,
            frozenset(self.spec.checks),
        )
        return found.proof, {flaw.height for flaw in found.flaws}

    async def _endorse(self, span: Span, proof: Proof, fence: int) -> bool:
        """Records the proof of a span, if it then passes all requested checks."""
        seen = [
            it
            for it in await self.sink.stored(self.spec.chain_id, span)
            if it.dataset in self.spec.datasets
        ]
        proven, unproven = frozenset[str](proof.proven), frozenset[str](proof.unproven)
        if not all(suffices(it.proven | proven | unproven, span, self.spec) for it in seen):
            return False
        try:
            await self.sink.endorse(self.spec.chain_id, seen, proven, unproven, fence)
        except FencedOff:  # another run has just written it
            return False
        return True


async def record_parts(sink: Sink, chain_id: int, span: Span) -> AsyncIterator[Span]:
    """Splits a span at the records' boundaries, so that endorsing a part splits no record."""
    records = await sink.records(chain_id, span)
    edges = {it.span.first for it in records} | {it.span.last + 1 for it in records}
    inner = sorted(edge for edge in edges if span.first < edge <= span.last)
    for first, end in zip([span.first, *inner], [*inner, span.last + 1], strict=True):
        yield Span(first, end - 1)
