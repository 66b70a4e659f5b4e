"""What came of a fetch: measured by what its sink holds, and by what the process has counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from gapless.blocks.counts import Counts
from gapless.blocks.holding import holding
from gapless.blocks.spec import BlocksSpec
from gapless.chains import Level
from gapless.core.backfill import State
from gapless.core.errors import Damaged, SinkError
from gapless.core.proof import lacking_proofs
from gapless.core.ranges import RangeSet, Span
from gapless.ledger.records import Backfill
from gapless.providers import Served
from gapless.sinks import Sink, Stored


@dataclass(frozen=True)
class FetchResult:
    """What came of a fetch."""

    id: str | None  # of its backfill; None: there was nothing to do
    state: State
    error: str | None
    spec: BlocksSpec
    requested: Span  # with a tag resolved
    final: int  # the last block that will not change
    span: Span  # what of the request is final
    stored: RangeSet  # of the span
    unproven: RangeSet  # stored, with fewer proofs than asked for
    gaps: RangeSet  # what is missing of the span
    rows: Mapping[str, int]  # stored, by dataset
    not_proven: frozenset[str]  # checks of the default level, or asked for, that some block lacks
    fetched: int  # blocks that this run has written
    reproven: int  # blocks that were proven again from their own rows
    batches: int  # in so many writes
    started_at: float
    ended_at: float
    calls: Mapping[str, int]
    requests: int
    retries: int  # calls that were sent again
    refused: int  # answers that did not hold
    endpoints: Mapping[str, Served]  # by name

    @property
    def interrupted(self) -> bool:
        """Whether it was stopped before its end; the same fetch again resumes it."""
        return not self.state.ended

    @property
    def not_final(self) -> Span | None:
        """What was requested and is not final yet, so that it was left out."""
        first = max(self.requested.first, self.final + 1)
        return Span(first, self.requested.last) if first <= self.requested.last else None

    @property
    def seconds(self) -> float:
        return self.ended_at - self.started_at

    @property
    def blocks_per_second(self) -> float:
        return self.fetched / self.seconds if self.seconds else 0.0


@dataclass(frozen=True)
class Outcome:
    """How a fetch ended, as its process knows it; without a backfill, nothing was to be done."""

    counts: Counts
    ended_at: float
    seconds: float = 0.0
    backfill: Backfill | None = None


async def result_of(
    sink: Sink, spec: BlocksSpec, requested: Span, final: int, span: Span, outcome: Outcome
) -> FetchResult:
    """What is stored by now of a span, and what is not."""
    counts, ended = outcome.counts, outcome.backfill
    if ended is None or ended.state is State.SUCCEEDED:
        await sink.finish()
    elif ended.state.ended:  # otherwise whoever resumes it does that
        with suppress(SinkError):  # what has failed is reported as it is
            await sink.finish()
    stored = await _stored(sink, spec, span)
    rows: Counter[str] = Counter()
    for each in stored:
        rows[each.dataset] += each.rows
    held = await holding(sink, spec, span)
    return FetchResult(
        id=None if ended is None else ended.id,
        state=State.SUCCEEDED if ended is None else ended.state,
        error=None if ended is None else ended.error,
        spec=spec,
        requested=requested,
        final=final,
        span=span,
        stored=held.done | held.weak,
        unproven=held.weak,
        gaps=held.left(span) - held.weak,
        rows=rows,
        not_proven=_not_proven(spec, stored),
        fetched=counts.blocks,
        reproven=counts.reproven,
        batches=counts.batches,
        started_at=outcome.ended_at - outcome.seconds,
        ended_at=outcome.ended_at,
        calls=counts.calls,
        requests=counts.requests,
        retries=counts.retries,
        refused=counts.refused,
        endpoints=counts.endpoints,
    )


async def _stored(sink: Sink, spec: BlocksSpec, span: Span) -> list[Stored]:
    try:
        return await sink.stored(spec.chain_id, span)
    except Damaged:  # it cannot be cut to the span without being read
        return await sink.records(spec.chain_id, span)


def _not_proven(spec: BlocksSpec, stored: Sequence[Stored]) -> frozenset[str]:
    expected = spec.family.level(Level.AUTO, spec.datasets)
    lists = (
        lacking_proofs(each.proven, each.unproven, expected)
        for each in stored
        if each.dataset in spec.datasets
    )
    return frozenset().union(*lists)
