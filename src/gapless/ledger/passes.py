"""The passes of a sync, and what follows from them: its state and its progress.

A pass that has ended may have left heights undone. What a child retries is the child's business:
only what no child retries makes a sync ABANDONED or CANCELLED. So a sync is COMPLETE exactly if
every height of its range is done, however often parts of it failed, were purged or retried.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property

from gapless.core.backfill import State, Stop
from gapless.core.chunk import Order, Status
from gapless.core.ranges import RangeSet, Span
from gapless.ledger.records import ChunkCounts
from gapless.ledger.rows.wallet import OpenSegments, PassCounters, PassTrouble
from gapless.ledger.syncs import SyncProgress, SyncState, Trouble

_COUNTED = [each.name for each in fields(ChunkCounts)]
_FIRST = (
    SyncState.RUNNING,
    SyncState.PENDING,
    SyncState.FAILED,
    SyncState.PAUSED,
    SyncState.ABANDONED,
    SyncState.CANCELLED,
)


@dataclass(frozen=True)
class Pass:
    """A backfill of a sync, as it was at one moment."""

    row: PassCounters
    segments: Mapping[str, OpenSegments]  # by status
    trouble: PassTrouble | None
    heights: RangeSet | None  # that it covers; None if all are done, or if nobody can read them
    undone: int | None  # heights that it has not done; None unless nothing of it will run any more
    left: RangeSet  # of these, those that no child retries
    has_children: bool

    def age(self) -> tuple[float, str]:
        """The key by which passes are sorted, the oldest first."""
        return self.row.created_at, self.row.id

    @cached_property
    def pending(self) -> int:
        """Chunks that wait for a run, those that are not planned yet included."""
        if self.row.stopping or self.row.has_ended:
            return 0
        return self.row.unended - self.count(Status.RUNNING) - self.count(Status.FAILED)

    @property
    def is_retried(self) -> bool:
        """Whether its children, if there are any, are responsible for all that it has not done."""
        return self.undone is not None and not self.left

    @property
    def counts(self) -> ChunkCounts:
        """Its chunks, except those that became chunks of a child."""
        row, complete = self.row, self.row.complete
        if self.is_retried:
            return ChunkCounts(complete, complete, 0, 0, complete, 0, 0, 0)
        gone = row.abandoned if self.has_children and self.undone is None else 0
        running, failed = self.count(Status.RUNNING), self.count(Status.FAILED)
        return ChunkCounts(
            total=row.chunk_total - gone,
            planned=row.planned - gone,
            pending=self.pending,
            running=running,
            complete=complete,
            failed=failed,
            abandoned=row.abandoned - gone,
            cancelled=row.cancelled + row.unended - self.pending - running - failed,
        )

    @property
    def states(self) -> Iterator[SyncState]:
        """What happens to its chunks, and what became of them."""
        if self.undone is not None:
            if self.left:
                is_cancelled = self.row.stopping == Stop.CANCEL
                yield SyncState.CANCELLED if is_cancelled else SyncState.ABANDONED
            return
        if Status.RUNNING in self.segments:
            yield SyncState.RUNNING
        if self.pending or Status.FAILED in self.segments:
            if self.row.state == State.PAUSED:
                yield SyncState.PAUSED
            else:
                yield SyncState.PENDING if self.pending else SyncState.FAILED

    @property
    def done(self) -> int:
        """Heights that are done."""
        row = self.row
        if self.undone is not None:
            return row.partitions - self.undone
        surplus = row.chunk_total * row.chunk_size - row.partitions
        short = surplus if row.last_status == Status.COMPLETE else 0  # the last one is smaller
        parts = (Status.RUNNING, Status.FAILED, Status.ABANDONED)
        return (
            row.complete * row.chunk_size
            - short
            + sum(self.segments[each].done for each in parts if each in self.segments)
        )

    def missing_from(self, first: int) -> int | None:
        """A height, below which all are done; None if all are, and `first` if nobody knows."""
        if self.row.complete == self.row.chunk_total or self.is_retried:
            return None
        if self.heights is None:
            return first
        if self.left:
            return self.left.spans[0].first
        found = [each.missing_from for each in self.segments.values()]
        if self.row.cancelled:
            found.append(0)  # no index tells which
        if self.row.planned < self.row.chunk_total:
            oldest = self.row.run_order == Order.OLDEST
            found.append(self.row.planned * self.row.chunk_size if oldest else 0)
        lowest = min(found)
        return self.heights.at(lowest) if lowest < self.row.partitions else None

    @property
    def next_retry_at(self) -> float | None:
        return self.segments[Status.FAILED].next_due if self.count(Status.FAILED) else None

    @property
    def changed_at(self) -> float:
        """When something last happened, the latest heartbeat included."""
        running = self.segments.get(Status.RUNNING)
        beat = 0.0 if running is None else (running.last_due or 0.0) - self.row.lease_seconds
        return max(self.row.changed_at, beat)

    def count(self, status: Status) -> int:
        return self.segments[status].chunks if status in self.segments else 0


def summed(passes: Sequence[Pass], heights: Span) -> SyncProgress:
    """The progress of a sync over these heights, from its passes.

    Heights that are looked at in two ways count twice.
    """
    ids = {each.row.id for each in passes}
    total = sum(each.row.partitions for each in passes if each.row.parent_backfill_id not in ids)
    state = _state(passes)
    missing = [at for each in passes if (at := each.missing_from(heights.first)) is not None]
    processed_to = min(missing, default=heights.last + 1) - 1
    done = total if state is SyncState.COMPLETE else sum(each.done for each in passes)
    return SyncProgress(
        state=state,
        segments=_sum([each.counts for each in passes]),
        done=min(done, total),
        total=total,
        processed_to=processed_to if processed_to >= heights.first else None,
        trouble=_trouble(passes),
        failed_runs=sum(each.row.failed_runs for each in passes),
        next_retry_at=min(
            (due for each in passes if (due := each.next_retry_at) is not None), default=None
        ),
        changed_at=max((each.changed_at for each in passes), default=0.0),
    )


def _state(passes: Sequence[Pass]) -> SyncState:
    """What happens to a sync: the first of these that is true of one of its passes."""
    found = {state for each in passes for state in each.states}
    return next((state for state in _FIRST if state in found), SyncState.COMPLETE)


def _trouble(passes: Sequence[Pass]) -> Trouble | None:
    """Of the segment to be retried next, else of the first one that was abandoned."""
    far = float("inf")
    troubled = [each for each in passes if each.trouble is not None and not each.is_retried]
    if not troubled:
        return None
    row = min(troubled, key=lambda each: far if (at := each.next_retry_at) is None else at).trouble
    assert row is not None
    return Trouble(row.attempts + row.lost, row.error_class, row.error_message)


def _sum(counts: Sequence[ChunkCounts]) -> ChunkCounts:
    if len(counts) == 1:
        return counts[0]
    return ChunkCounts(*(sum(getattr(each, name) for each in counts) for name in _COUNTED))
