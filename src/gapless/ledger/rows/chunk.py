"""Rows of `chunks`."""

from __future__ import annotations

from functools import partial

import msgspec

from gapless.core.chunk import FailureCounts, Status, missing
from gapless.core.ranges import RangeSet, Span
from gapless.core.selector import Selection
from gapless.ledger.records import ChunkRow, Claim, ClaimedBackfill, DeadLetter, Progress
from gapless.ledger.rows.texts import decode_holes

NO_FAILURES = FailureCounts()
_span = partial(tuple.__new__, Span)  # a third of the time of `Span`: a claim may make thousands


class LeasedChunk(msgspec.Struct, frozen=True, gc=False):
    """A chunk that a claim has taken."""

    chunk_index: int
    rank: int
    first: int
    last: int
    fence: int
    attempts: int
    lost: int
    last_processed: int | None
    last_failure_position: int | None
    holes: str | None
    payload: str | None
    write_fence: int | None

    def claim(self, backfill: ClaimedBackfill, claim_id: str, owner: str) -> Claim:
        failed = self.attempts or self.lost
        return Claim(
            backfill,
            self.chunk_index,
            _span((self.first, self.last)),
            self.fence,
            claim_id,
            owner,
            FailureCounts(self.attempts, self.lost) if failed else NO_FAILURES,
            self.last_processed,
            self.last_failure_position,
            decode_holes(self.holes, backfill.backfill_id),
            self.payload,
            self.write_fence,
        )


class ExpiredChunk(LeasedChunk, frozen=True, gc=False):
    """A chunk whose lease has ended, and who held it."""

    claim_id: str
    owner: str


class ReclaimedChunk(LeasedChunk, frozen=True, gc=False):
    """A chunk that an earlier try of the same claim has taken."""

    backfill_id: str


class StoredChunk(msgspec.Struct, frozen=True):
    """A chunk as it is shown."""

    chunk_index: int
    rank: int
    first: int
    last: int
    status: str
    attempts: int
    lost: int
    fence: int | None
    owner: str | None
    due: float | None
    last_processed: int | None
    holes: str | None
    error_class: str | None
    error_message: str | None
    payload: str | None
    write_fence: int | None
    planned_at: float

    def chunk(self) -> ChunkRow:
        return ChunkRow(
            self.chunk_index,
            self.rank,
            Span(self.first, self.last),
            Status(self.status),
            FailureCounts(self.attempts, self.lost),
            self.fence,
            self.owner,
            self.due,
            Progress(self.last_processed, decode_holes(self.holes)),
            self.error_class,
            self.error_message,
            self.payload,
            self.write_fence,
            self.planned_at,
        )


class ChunkProgress(msgspec.Struct, frozen=True):
    """How much of a chunk is done."""

    chunk_index: int
    first: int
    last: int
    last_processed: int | None
    holes: str | None

    def missing(self) -> RangeSet:
        """The positions that no run has done."""
        return missing(Span(self.first, self.last), self.last_processed, decode_holes(self.holes))


class DeadChunk(ChunkProgress, frozen=True):
    """A chunk that was given up, with its last error."""

    backfill_id: str
    attempts: int
    lost: int
    error_class: str
    error_message: str
    ended_at: float


class DeadChunkOfJob(DeadChunk, frozen=True):
    """The same, with the columns of its backfill that a dead letter shows."""

    job: str
    selection: str

    def letter(self, selection: Selection | None) -> DeadLetter:
        """The dead letter, with the partitions that are missing; None if nobody can read those."""
        positions = self.missing()
        return DeadLetter(
            backfill_id=self.backfill_id,
            job=self.job,
            chunk_index=self.chunk_index,
            missing=positions,
            partitions=tuple(selection.describe(positions)) if selection else ("unreadable",),
            attempts=self.attempts,
            lost=self.lost,
            error_class=self.error_class,
            error_message=self.error_message,
            ended_at=self.ended_at,
        )


class Beat(msgspec.Struct, frozen=True):
    """A chunk, named by the lease of one claim, and how far its run has come."""

    chunk_index: int
    fence: int
    claim_id: str
    last_processed: int | None
    holes: str | None


class AppendedChunk(msgspec.Struct, frozen=True):
    """A chunk of a standing backfill, as it is inserted."""

    chunk_index: int
    rank: int
    first: int
    last: int
    payload: str | None
    write_fence: int | None


class DeletedChunk(msgspec.Struct, frozen=True):
    """An ended chunk whose row was deleted."""

    chunk_index: int
    status: str
    purged_at: float | None


class EndedCounts(msgspec.Struct, frozen=True):
    """Ended chunks by status."""

    complete: int = 0
    abandoned: int = 0
    cancelled: int = 0

    def __add__(self, other: EndedCounts) -> EndedCounts:
        return EndedCounts(
            self.complete + other.complete,
            self.abandoned + other.abandoned,
            self.cancelled + other.cancelled,
        )

    @property
    def total(self) -> int:
        return self.complete + self.abandoned + self.cancelled

    def __str__(self) -> str:
        return f"({self.complete}, {self.abandoned}, {self.cancelled})"
