"""The values that go into and come out of a ledger."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, TypeVar

import msgspec

from gapless.core.backfill import Lifecycle, State, Stop
from gapless.core.chunk import FailureCounts, Order, Status, chunk_id, chunk_total, missing
from gapless.core.errors import Unreadable, UsageError
from gapless.core.ranges import RangeSet, Span
from gapless.core.retry import RetryPolicy
from gapless.core.selector import Selection
from gapless.core.spec import encode_spec

T = TypeVar("T")
NO_HOLES = RangeSet()
FIRST_TRY = FailureCounts()
CLASS_LIMIT = 200  # characters that are kept of an error's class, message and traceback
MESSAGE_LIMIT = 2_000
TRACEBACK_LIMIT = 4_000
KEPT_ATTEMPTS = 10  # failed runs that are remembered of each chunk, the latest
RESERVED = "drained-"
"""How the ids of hooks begin, and those of no other backfill."""


@dataclass(frozen=True)
class BackfillRequest:
    """All that a new backfill is made of."""

    id: str
    job: str
    job_version: int
    selector: dict[str, Any]
    selection: Selection
    chunk_size: int
    max_concurrent_runs: int = 4
    queue: str = "default"
    order: Order = Order.OLDEST
    retry: RetryPolicy = RetryPolicy()  # noqa: RUF009 - frozen
    lease_seconds: float = 60.0
    timeout: float | None = None
    parent_backfill_id: str | None = None
    retry_request_id: str | None = None
    group: str | None = None
    hook: str | None = None
    spec: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        encode_spec(self.spec)  # what cannot be kept is refused before anything is written

    @property
    def chunk_total(self) -> int:
        return chunk_total(len(self.selection), self.chunk_size)


@dataclass(frozen=True)
class ClaimRequest:
    """A wish for up to `count` chunks, from the first of the queues that has any."""

    owner: str
    claim_id: str
    queues: tuple[str, ...]
    jobs: tuple[tuple[str, int], ...]
    count: int
    only: str | None = None


@dataclass(frozen=True)
class ClaimedBackfill:
    """What all claims on one backfill share."""

    backfill_id: str
    job: str
    job_version: int
    spec: dict[str, Any] = field(hash=False)
    selection: str
    retry: RetryPolicy
    lease_seconds: float
    group: str | None
    timeout: float | None  # seconds that a run may take


@dataclass(frozen=True)
class Claim:
    """A chunk under lease: who holds it is proven by fence and claim id."""

    backfill: ClaimedBackfill
    chunk_index: int
    span: Span
    fence: int
    claim_id: str
    owner: str  # the worker
    failures: FailureCounts
    last_processed: int | None
    last_failure_position: int | None
    holes: RangeSet

    @property
    def backfill_id(self) -> str:
        return self.backfill.backfill_id

    @property
    def chunk_id(self) -> str:
        return chunk_id(self.backfill_id, self.chunk_index)

    @property
    def attempt(self) -> int:
        """1 for the first run of the chunk; progress since the last failure makes it 1 again."""
        return self.failures.attempts + self.failures.lost + 1

    @property
    def name(self) -> dict[str, Any]:
        """The parameters by which every fenced statement names the chunk."""
        return {
            "id": self.backfill_id,
            "chunk_index": self.chunk_index,
            "fence": self.fence,
            "claim_id": self.claim_id,
        }


@dataclass(frozen=True)
class Progress:
    """How far a run has come: done up to `last_processed`, but for the holes."""

    last_processed: int | None = None
    holes: RangeSet = field(default_factory=RangeSet)


@dataclass(frozen=True)
class Failure:
    """A run that ended in an error."""

    claim: Claim
    progress: Progress
    error_class: str
    error_message: str
    permanent: bool = False
    ledger_lost: bool = False  # no fault of the job: it counts like a lost worker
    traceback: str | None = None


@dataclass(frozen=True)
class Attempt:
    """A run that ended in an error, as the ledger remembers it."""

    attempt: int
    at: float
    worker: str
    error_class: str
    error_message: str
    traceback: str | None


class Signal(StrEnum):
    """What a heartbeat answers."""

    GO_ON = "go on"
    PAUSE = "pause"
    STOP = "stop"
    HELD = "held"  # a transaction holds the chunk: it is ours, but its lease was not extended
    LOST = "lost"


@dataclass(frozen=True)
class ChunkCounts:
    total: int
    planned: int
    pending: int
    running: int
    complete: int
    failed: int
    abandoned: int
    cancelled: int


@dataclass(frozen=True)
class Backfill:
    """A backfill as the ledger shows it."""

    id: str
    job: str
    job_version: int
    spec: dict[str, Any]
    selector: dict[str, Any]
    selection: str
    partitions: int
    chunk_size: int
    max_concurrent_runs: int
    queue: str
    order: Order
    retry: RetryPolicy
    lease_seconds: float
    timeout: float | None
    lifecycle: Lifecycle
    parent_backfill_id: str | None
    retry_request_id: str | None
    group: str | None
    drift: str | None
    error: str | None
    created_at: float
    started_at: float | None
    ended_at: float | None
    chunks: ChunkCounts
    now: float
    unreadable: str | None = None  # what of it cannot be understood, and is shown as empty

    @property
    def state(self) -> State:
        return self.lifecycle.state

    @property
    def progress_pct(self) -> float:
        return round(100 * self.chunks.complete / self.chunks.total, 2)


@dataclass(frozen=True)
class ChunkRow:
    """A chunk as the ledger shows it."""

    chunk_index: int
    rank: int
    span: Span
    status: Status
    failures: FailureCounts
    fence: int | None
    owner: str | None
    due: float | None
    progress: Progress
    error_class: str | None
    error_message: str | None

    @property
    def done(self) -> int:
        """How many of its partitions are done."""
        left = missing(self.span, self.progress.last_processed, self.progress.holes)
        return self.span.size - len(left)

    @property
    def progress_pct(self) -> float:
        return round(100 * self.done / self.span.size, 2)


@dataclass(frozen=True)
class DeadLetter:
    """An abandoned chunk, with the partitions that nobody has done."""

    backfill_id: str
    job: str
    chunk_index: int
    missing: RangeSet
    partitions: tuple[str, ...]
    attempts: int
    lost: int
    error_class: str
    error_message: str
    ended_at: float

    @property
    def chunk_id(self) -> str:
        return chunk_id(self.backfill_id, self.chunk_index)


@dataclass(frozen=True)
class WorkerRow:
    id: str
    host: str
    pid: int
    process_started: str
    library: str
    slots: dict[str, int]
    unresolved: dict[str, str]
    started_at: float
    seen_at: float


def decoded(backfill_id: str, what: str, text: Any, kind: type[T]) -> T:
    """What a row of a backfill says in JSON; raises if it makes no sense."""
    with _readable(backfill_id, what):
        return msgspec.json.decode(text, type=kind)


def order_of(backfill_id: str, text: str) -> Order:
    with _readable(backfill_id, "order"):
        return Order(text)


@contextmanager
def _readable(backfill_id: str, what: str) -> Iterator[None]:
    try:
        yield
    except (msgspec.MsgspecError, UsageError, TypeError, ValueError) as error:
        raise Unreadable(
            f"the {what} of backfill `{backfill_id}` cannot be read: {error}",
            backfill_id=backfill_id,
            hint="start a new backfill in its place",
        ) from error


def encode_holes(holes: RangeSet) -> str | None:
    return msgspec.json.encode(holes.spans).decode() if holes else None


def decode_holes(text: str | None, backfill_id: str | None = None) -> RangeSet:
    if not text:
        return NO_HOLES
    try:
        return RangeSet(msgspec.json.decode(text, type=list[tuple[int, int]]))
    except (msgspec.MsgspecError, TypeError, ValueError) as error:
        raise Unreadable(
            f"the holes of a chunk cannot be read: {error}", backfill_id=backfill_id
        ) from error


def missing_of_row(row: Sequence[Any]) -> RangeSet:
    """The positions not done of a chunk, from `first, last, last_processed, holes`."""
    first, last, last_processed, holes = row
    return missing(Span(first, last), last_processed, decode_holes(holes))


def claim_from_row(
    backfill: ClaimedBackfill, claim_id: str, owner: str, row: Sequence[Any]
) -> Claim:
    """A claim from the columns that the statements of `claims.sql` return."""
    index, _, first, last, fence, attempts, lost, last_processed, last_failure_position, holes = row
    return Claim(
        backfill,
        index,
        Span(first, last),
        fence,
        claim_id,
        owner,
        FailureCounts(attempts, lost) if attempts or lost else FIRST_TRY,
        last_processed,
        last_failure_position,
        decode_holes(holes, backfill.backfill_id) if holes else NO_HOLES,
    )


def lifecycle_from_row(backfill_id: str, state: str, version: int, stop: str | None) -> Lifecycle:
    return Lifecycle(backfill_id, State(state), version, Stop(stop) if stop else None)
