"""The chunk: the unit of work and of durability.

    PENDING ──claim──> RUNNING ──> COMPLETE
       ^                 │ ├─────> FAILED      claimable again after a delay
       └─────release─────┘ ├─────> ABANDONED   a dead letter; its holes are the failed partitions
                           └─────> CANCELLED

Bounds follow from the number of partitions and the chunk size alone, both fixed when the backfill
is created, so planning an index twice gives the same chunk. Only the chunks of a standing backfill
have bounds of their own. A run resumes after `last_processed`; positions that failed permanently
are kept as holes, so that the missing part of a chunk is always `holes + (last_processed, last]`.

`bounds` and `rank` only use arithmetic, so they also work on expressions: the ledger's SQL is
generated from them (`gapless.ledger.fragments`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol, Self, TypeVar

from gapless.core.ranges import HIGHEST, RangeSet, Span
from gapless.core.retry import RetryKind, RetryPolicy


class Status(StrEnum):
    PENDING = "PENDING"
    RUNNING = "RUNNING"
    COMPLETE = "COMPLETE"
    FAILED = "FAILED"
    ABANDONED = "ABANDONED"
    CANCELLED = "CANCELLED"

    @property
    def ended(self) -> bool:
        return self in ENDED


ENDED = frozenset({Status.COMPLETE, Status.ABANDONED, Status.CANCELLED})


class Order(StrEnum):
    OLDEST = "oldest"
    NEWEST = "newest"

    @property
    def direction(self) -> int:
        return 1 if self is Order.OLDEST else -1


class Number(Protocol):
    """An integer, or an expression that stands for one."""

    def __add__(self, other: Any, /) -> Self: ...
    def __sub__(self, other: Any, /) -> Self: ...
    def __mul__(self, other: Any, /) -> Self: ...


N = TypeVar("N", bound=Number)


def chunk_total(partitions: int, chunk_size: int) -> int:
    return -(-partitions // chunk_size)


def bounds(index: N, partitions: N, chunk_size: N, least: Callable[[N, N], N]) -> tuple[N, N]:
    """The first and the last position of chunk `index`; `least` is `min` of two numbers."""
    first = index * chunk_size
    return first, least(first + chunk_size, partitions) - 1


def boundaries(index: int, partitions: int, chunk_size: int) -> Span:
    """The positions of chunk `index`."""
    return Span(*bounds(index, partitions, chunk_size, min))


def rank(index: N, direction: N) -> N:
    """The place of a chunk among the pending ones, which are claimed in ascending order."""
    return index * direction


def appended_rank(first: int, *, draws_fence: bool) -> int:
    """The same for a chunk of a standing backfill: the newest is first.

    A chunk that draws a fence is before all others, because it undoes what they would build on.
    """
    return -first - (HIGHEST + 1 if draws_fence else 0)


def planned_indices(order: Order, total: int, planned: int) -> range:
    """The indices of the first `planned` chunks in planning order, ascending."""
    return range(planned) if order is Order.OLDEST else range(total - planned, total)


def next_indices(order: Order, total: int, planned: int, count: int) -> range:
    """The indices of the next `count` chunks to plan, ascending; fewer if fewer are left."""
    before = planned_indices(order, total, planned)
    after = planned_indices(order, total, min(planned + count, total))
    if order is Order.OLDEST:
        return range(before.stop, after.stop)
    return range(after.start, before.start)


def unplanned_positions(order: Order, partitions: int, chunk_size: int, planned: int) -> RangeSet:
    """The positions that no chunk covers yet."""
    total = chunk_total(partitions, chunk_size)
    if planned >= total:
        return RangeSet()
    if order is Order.OLDEST:
        return RangeSet.of((planned * chunk_size, partitions - 1))
    return RangeSet.of((0, min((total - planned) * chunk_size, partitions) - 1))


def chunk_id(backfill_id: str, index: int) -> str:
    return f"{backfill_id}:{index}"


def run_key(backfill_id: str, index: int) -> str:
    return f"backfill:{backfill_id}:chunk:{index}"


def missing(span: Span, last_processed: int | None, holes: RangeSet) -> RangeSet:
    """The positions of a chunk that are not done."""
    rest = span.first if last_processed is None else last_processed + 1
    return holes if rest > span.last else holes | RangeSet.of((rest, span.last))


@dataclass(frozen=True)
class FailureCounts:
    """How often a chunk failed, or lost its worker, in a row."""

    attempts: int = 0
    lost: int = 0

    def failed(self, *, progressed: bool) -> FailureCounts:
        """One more failure; after progress, it counts as the first."""
        return FailureCounts(1 if progressed else self.attempts + 1, 0)

    def lost_worker(self, *, progressed: bool) -> FailureCounts:
        return FailureCounts(0 if progressed else self.attempts, 1 if progressed else self.lost + 1)


@dataclass(frozen=True)
class Verdict:
    """The consequence of a failure: the seconds until the chunk may be claimed, or None."""

    failures: FailureCounts
    delay: float | None

    @property
    def status(self) -> Status:
        return Status.ABANDONED if self.delay is None else Status.FAILED


def after_failure(
    policy: RetryPolicy,
    failures: FailureCounts,
    *,
    progressed: bool,
    permanent: bool,
    chance: float,
) -> Verdict:
    """The verdict on a run that ended with an error; `unbounded` retries after any error."""
    now = failures.failed(progressed=progressed and not permanent)
    final = permanent and policy.kind is not RetryKind.UNBOUNDED
    return Verdict(now, None if final else policy.delay(now.attempts, chance))


def after_loss(
    policy: RetryPolicy, failures: FailureCounts, *, progressed: bool, chance: float
) -> Verdict:
    """The verdict on a run whose lease ended without a result."""
    now = failures.lost_worker(progressed=progressed)
    return Verdict(now, policy.delay_after_loss(now.lost, chance))
