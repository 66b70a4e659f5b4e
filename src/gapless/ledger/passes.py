"""The passes of a sync, and what follows from them: its state and its progress.

A pass that has ended may have left heights undone. What a child retries is the child's business:
only what no child retries makes a sync ABANDONED or CANCELLED. So a sync is COMPLETE exactly if
every height of its range is done, however often parts of it failed, were purged or retried.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields

from gapless.core.backfill import State, Stop
from gapless.core.chunk import Order, Status
from gapless.core.ranges import RangeSet
from gapless.ledger.records import ChunkCounts
from gapless.ledger.rows.wallet import ListedSync, OpenSegments, PassCounters, PassTrouble
from gapless.ledger.syncs import Sync, SyncState, Trouble


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

    @property
    def pending(self) -> int:
        """Chunks that wait for a run, those that are not planned yet included."""
        if self.row.stopping or State(self.row.state).ended:
            return 0
        return unended(self.row) - self.count(Status.RUNNING) - self.count(Status.FAILED)

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
        return ChunkCounts(
            total=row.chunk_total - gone,
            planned=row.planned - gone,
            pending=self.pending,
            running=self.count(Status.RUNNING),
            complete=complete,
            failed=self.count(Status.FAILED),
            abandoned=row.abandoned - gone,
            cancelled=row.cancelled,
        )

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
        """The lowest height that is not done, None if there is none; `first` if unknown."""
        if self.row.complete == self.row.chunk_total or self.is_retried:
            return None
        if self.heights is None:
            return first
        if self.left:
            return self.left.spans[0].first
        found = [each.missing_from for each in self.segments.values()]
        if self.row.planned < self.row.chunk_total:
            oldest = self.row.run_order == Order.OLDEST
            found.append(self.row.planned * self.row.chunk_size if oldest else 0)
        return self.heights.at(min(found))

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


def unended(row: PassCounters) -> int:
    """Chunks that have not ended, those that are not planned yet included."""
    return row.chunk_total - row.complete - row.abandoned - row.cancelled


def summed(sync: ListedSync, passes: Sequence[Pass]) -> Sync:
    """A sync, from its passes."""
    ordered = sorted(passes, key=lambda each: (each.row.created_at, each.row.id))
    state = _state(ordered)
    heights = sync.heights
    missing = [at for each in ordered if (at := each.missing_from(sync.first)) is not None]
    processed_to = min(missing, default=sync.last + 1) - 1
    retries = [due for each in ordered if (due := each.next_retry_at) is not None]
    done = heights.size if state is SyncState.COMPLETE else sum(each.done for each in ordered)
    return Sync(
        key=sync.key,
        label=sync.label,
        network=sync.network,
        sink=sync.sink,
        heights=heights,
        passes=tuple(each.row.id for each in ordered),
        state=state,
        segments=_sum([each.counts for each in ordered]),
        done=min(done, heights.size),
        processed_to=processed_to if processed_to >= sync.first else None,
        trouble=_trouble(ordered),
        failed_runs=sum(each.row.failed_runs for each in ordered),
        next_retry_at=min(retries, default=None),
        created_at=sync.created_at,
        updated_at=max([sync.updated_at, *(each.changed_at for each in ordered)]),
    )


def _state(passes: Sequence[Pass]) -> SyncState:
    def some(holds: Callable[[Pass], object]) -> bool:
        return any(holds(each) for each in passes)

    active = [each for each in passes if each.row.state != State.PAUSED]
    if some(lambda each: each.count(Status.RUNNING)):
        return SyncState.RUNNING
    if any(each.pending for each in active):
        return SyncState.PENDING
    if any(each.count(Status.FAILED) for each in active):
        return SyncState.FAILED
    if some(lambda each: each.pending or each.count(Status.FAILED)):
        return SyncState.PAUSED
    if some(lambda each: each.left and each.row.stopping != Stop.CANCEL):
        return SyncState.ABANDONED
    return SyncState.CANCELLED if some(lambda each: each.left) else SyncState.COMPLETE


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
    names = [each.name for each in fields(ChunkCounts)]
    return ChunkCounts(**{name: sum(getattr(each, name) for each in counts) for name in names})
