"""What a sink holds of the requested blocks, and which checks it passed.

A range recorded with fewer checks than requested is not fetched again at once: its rows are still
there, and everything that the chain commits to can be verified from them (see `reproof`). Nor is a
range that lacks only tables which follow from stored ones (see `derivation`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import reduce

from gapless.blocks.spec import BlocksSpec
from gapless.core.heights import HIGHEST
from gapless.core.ranges import RangeSet, Span
from gapless.sinks import Damage, Sink, Stored


@dataclass(frozen=True)
class Holding:
    """Heights of a span, by how the sink holds them; all other heights are missing."""

    done: RangeSet = RangeSet()  # noqa: RUF009 - immutable; as requested, or expired
    weak: RangeSet = RangeSet()  # noqa: RUF009 - with fewer checks than requested
    damaged: RangeSet = RangeSet()  # noqa: RUF009 - recorded but unreadable
    derivable: RangeSet = RangeSet()  # noqa: RUF009 - without tables that follow from stored rows

    def left(self, span: Span) -> RangeSet:
        """The heights of a span that are still to be fetched, verified again or derived."""
        return RangeSet.of(span) - self.done


async def holding(sink: Sink, spec: BlocksSpec, span: Span) -> Holding:
    """Finds what the sink holds of a span, for a backfill with this spec."""
    records = await sink.records(spec.chain_id, span)
    found = await _held(sink, spec, span, records)
    if not spec.derived:
        return found
    stored = [it for it in records if not it.expired]
    sources = await _held(sink, spec.sources, span, stored)
    derivable = sources.done - found.done - found.weak - found.damaged
    return replace(found, derivable=derivable)


async def _held(sink: Sink, spec: BlocksSpec, span: Span, records: list[Stored]) -> Holding:
    whole = RangeSet.of(span)
    damaged = RangeSet(it.span for it in await _damage(sink, spec, span))

    def held(found: list[Stored]) -> RangeSet:
        by_dataset = (
            RangeSet(it.span for it in found if it.dataset == dataset) for dataset in spec.datasets
        )
        return reduce(RangeSet.__and__, by_dataset, whole) - damaged

    there = held(records)
    done = held(
        [it for it in records if it.expired or suffices(it.proven | it.unproven, it.span, spec)]
    )
    return Holding(done, there - done, damaged & whole)


async def datasets_of_chain(sink: Sink, chain_id: int) -> frozenset[str]:
    """The tables that a sink holds, or was requested to hold, for a chain."""
    stored = {it.dataset for it in await sink.records(chain_id, Span(0, HIGHEST))}
    return frozenset(stored).union(*(it.datasets for it in await sink.requests(chain_id)))


async def discard_damaged(sink: Sink, spec: BlocksSpec, span: Span) -> None:
    """Retracts unreadable ranges entirely, even beyond the span: no chunk could replace a part."""
    for each in await _damage(sink, spec, span):
        await sink.retract(spec.chain_id, each.span, await sink.highest_fence())


async def _damage(sink: Sink, spec: BlocksSpec, span: Span) -> list[Damage]:
    """The damage in the requested tables; other tables are left alone."""
    found = await sink.damage(spec.chain_id, span)
    return [each for each in found if each.dataset in spec.datasets]


def suffices(made: frozenset[str], span: Span, spec: BlocksSpec) -> bool:
    """Whether these checks include all requested ones that apply to the span."""
    network, checks = spec.chain, frozenset(spec.checks)
    starts = {span.first, *(era.start for era in network.eras)}
    heights = (height for height in starts if span.first <= height <= span.last)
    return all(network.required(checks, height) <= made for height in heights)
