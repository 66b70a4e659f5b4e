"""Checks by hash, with few calls, whether stored blocks are still on the node's chain.

Stored blocks are linked, so one matching hash confirms all blocks below it, and a binary search
finds the height at which a stored branch diverges from the node's chain. One wrong answer must not
discard a branch: a finding counts only if two searches agree.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

from gapless.chains.family import Source
from gapless.core.errors import Damaged, SourceError
from gapless.core.heights import HIGHEST
from gapless.core.ranges import RangeSet, Span
from gapless.schema import Table
from gapless.sinks import Sink

_RUNS = 16  # stored ranges to check, the highest first
_LOOKS = 4


@dataclass(frozen=True)
class AbandonedBranch:
    """Stored heights at which the node has different blocks."""

    heights: RangeSet
    unrelated: bool  # whether some stored range shares no block with the node's chain

    def is_reorganisation(self, depth: int) -> bool:
        """Whether an ordinary reorganisation explains it; otherwise a person has to decide."""
        return len(self.heights) <= depth and not self.unrelated


async def abandoned(
    sink: Sink, anchor: Table, chain_id: int, span: Span, source: Source
) -> AbandonedBranch:
    """The stored blocks, in a span or linked to it, that are not on the node's chain."""
    found, unrelated = RangeSet(), False
    for run in (await _runs(sink, anchor, chain_id, span))[-_RUNS:]:
        # Undecided if the node lacks the block or the stored one cannot be read.
        with suppress(SourceError, Damaged):
            left = await _confirmed(sink, anchor, chain_id, run, source)
            found |= left
            unrelated |= left == RangeSet.of(run)
    return AbandonedBranch(found, unrelated)


async def _runs(sink: Sink, anchor: Table, chain_id: int, span: Span) -> tuple[Span, ...]:
    """The contiguous stored ranges that overlap or touch a span."""
    records = await sink.records(chain_id, Span(0, HIGHEST))
    stored = RangeSet(it.span for it in records if it.dataset == anchor.name)
    return tuple(
        run for run in stored.spans if run.last >= span.first - 1 and run.first <= span.last + 1
    )


async def _confirmed(
    sink: Sink, anchor: Table, chain_id: int, run: Span, source: Source
) -> RangeSet:
    before: RangeSet | None = None
    for _ in range(_LOOKS):
        found = await _left(sink, anchor, chain_id, run, source)
        if not found or found == before:
            return found
        before = found
    return RangeSet()


async def _left(sink: Sink, anchor: Table, chain_id: int, run: Span, source: Source) -> RangeSet:
    """The upper part of a range that is not on the node's chain."""

    column = anchor.links.hash

    async def is_same(height: int) -> bool:
        rows = await sink.read(anchor, chain_id, Span(height, height), [column])
        theirs = await source.block_hash(height)
        return not rows.num_rows or rows[column][0].as_py() == theirs

    if await is_same(run.last):
        return RangeSet()
    low, high = run.first - 1, run.last  # `high` differs; `low` matches or is not stored
    while high - low > 1:
        middle = (low + high) // 2
        if await is_same(middle):
            low = middle
        else:
            high = middle
    return RangeSet.of((high, run.last))
