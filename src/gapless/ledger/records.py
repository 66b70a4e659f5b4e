"""The values that a ledger takes and returns."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import Any

import msgspec

from gapless.core.backfill import Lifecycle, State
from gapless.core.chunk import FailureCounts, Order, Status, chunk_id, chunk_total, missing
from gapless.core.errors import UsageError
from gapless.core.ranges import HIGHEST, RangeSet, Span
from gapless.core.retry import RetryKind, RetryPolicy
from gapless.core.selector import Selection
from gapless.core.spec import encode_spec
from gapless.ledger.cursor import Cursor

CLASS_LIMIT = 200  # stored characters of an error's class, message and traceback
MESSAGE_LIMIT = 2_000
TRACEBACK_LIMIT = 4_000
KEPT_ATTEMPTS = 10  # the latest failed runs that are stored per chunk
RESERVED = "drained-"
"""The prefix of the ids of hooks, and of no other backfill."""


@dataclass(frozen=True, kw_only=True)
class Terms:
    """What a backfill does, and how. Its retries inherit all of this."""

    job: str
    job_version: int
    chunk_size: int
    max_concurrent_runs: int = 4
    queue: str = "default"
    order: Order = Order.OLDEST
    retry: RetryPolicy = RetryPolicy()  # noqa: RUF009 - frozen
    lease_seconds: float = 60.0
    timeout: float | None = None  # seconds that a run may take
    group: str | None = None
    follow: str | None = None  # the follow that owns the backfill
    precedence: int = 0  # among the backfills of one follow, the highest is claimed first
    spec: dict[str, Any] = field(default_factory=dict)

    def inherited(self) -> dict[str, Any]:
        return {each.name: getattr(self, each.name) for each in fields(Terms)}


@dataclass(frozen=True, kw_only=True)
class BackfillRequest(Terms):
    """Everything that a new backfill is made of."""

    id: str
    selector: dict[str, Any]
    selection: Selection
    parent_backfill_id: str | None = None
    retry_request_id: str | None = None
    hook: str | None = None  # that its group runs when drained
    quiet_seconds: float = 0.0  # that the hook waits after the creation for more of the group
    standing: bool = False  # its chunks are appended by its follow, and it never ends by itself
    cursor: dict[str, Any] = field(default_factory=dict)  # the first state of its follow's cursor

    def __post_init__(self) -> None:
        encode_spec(self.spec)  # a spec that cannot be stored is refused before anything is written
        if self.follow is not None and self.group is not None:
            raise UsageError(f"backfill `{self.id}` of a follow cannot be in a group")
        if not self.standing:
            return
        if self.follow is None:
            raise UsageError(f"the standing backfill `{self.id}` needs a follow")
        if self.retry.kind is RetryKind.HALT:
            raise UsageError(f"the standing backfill `{self.id}` cannot halt")
        if not self.selection.is_identity:
            raise UsageError(f"the standing backfill `{self.id}` needs all heights from 0 on")

    @property
    def partitions(self) -> int:
        return 0 if self.standing else len(self.selection)

    @property
    def chunk_total(self) -> int:
        return chunk_total(self.partitions, self.chunk_size)


@dataclass(frozen=True)
class ClaimRequest:
    """A request for up to `count` chunks, from the first of the queues that has work."""

    owner: str
    claim_id: str
    queues: tuple[str, ...]
    jobs: tuple[tuple[str, int], ...]
    count: int
    only: str | None = None  # the id of one backfill, or the name of a follow


@dataclass(frozen=True)
class SurveyRequest:
    """What a worker wants to know before it claims."""

    queues: tuple[str, ...]
    jobs: tuple[tuple[str, int], ...]  # that it can run
    only: str | None = None  # the id of one backfill, or the name of a follow
    backfills: tuple[str, ...] | None = None  # that may have finished; None: any may have
    groups: tuple[str, ...] | None = None  # that may be drained; None: any may be


@dataclass(frozen=True)
class Survey:
    """What a worker can do now, and when to look again."""

    with_work: frozenset[str]  # the queues that have chunks for it
    due: float | None
    """Seconds until the next chunk of its queues may be retried, or the next lease ends.

    What is due already waits for a free run, not for time.
    """
    jobs: list[tuple[str, int]]  # that unfinished backfills of its queues need
    finished: list[str]  # backfills with nothing left to do that have not ended
    drained: list[str]  # groups whose hook is to run


class ClaimedBackfill(msgspec.Struct, frozen=True):  # cheap: every claim makes one
    """The part of a claim that all claims on one backfill share."""

    backfill_id: str
    job: str
    job_version: int
    spec: dict[str, Any]
    selection: str
    retry: RetryPolicy
    lease_seconds: float
    group: str | None
    timeout: float | None  # seconds that a run may take
    queue: str

    def __hash__(self) -> int:
        return hash(self.backfill_id)


class Claim(msgspec.Struct, frozen=True, gc=False):  # cheap: a claim may make thousands
    """A leased chunk; fence and claim id prove who holds the lease."""

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
    payload: str | None = None  # what the appender tells the job
    write_fence: int | None = None  # the fence at which the job writes, instead of the claim's own

    @property
    def backfill_id(self) -> str:
        return self.backfill.backfill_id

    @property
    def chunk_id(self) -> str:
        return chunk_id(self.backfill_id, self.chunk_index)

    @property
    def attempt(self) -> int:
        """1 for the first run of the chunk, and again after a run that made progress."""
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
    """How far a run has come: everything up to `last_processed` is done, except the holes."""

    last_processed: int | None = None
    holes: RangeSet = field(default_factory=RangeSet)


@dataclass(frozen=True)
class Failure:
    """A run that ended with an error."""

    claim: Claim
    progress: Progress
    error_class: str
    error_message: str
    permanent: bool = False
    ledger_lost: bool = False  # not the job's fault: it counts as a lost worker
    traceback: str | None = None


@dataclass(frozen=True)
class Attempt:
    """A run that ended with an error, as the ledger stores it."""

    attempt: int
    at: float
    worker: str
    error_class: str
    error_message: str
    traceback: str | None


class Signal(StrEnum):
    """The answer to a heartbeat."""

    GO_ON = "go on"
    PAUSE = "pause"
    STOP = "stop"
    HELD = "held"  # the job's transaction has locked the chunk: held, but not extended
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

    @property
    def unfinished(self) -> int:
        """Planned chunks that have not ended."""
        return self.pending + self.running + self.failed


@dataclass(frozen=True, kw_only=True)
class Backfill(Terms):
    """A backfill as the ledger shows it."""

    id: str
    selector: dict[str, Any]
    selection: str
    partitions: int
    lifecycle: Lifecycle
    parent_backfill_id: str | None
    retry_request_id: str | None
    standing: bool = False
    drift: str | None
    error: str | None
    created_at: float
    started_at: float | None
    ended_at: float | None
    chunks: ChunkCounts
    now: float
    queue_paused: bool = False
    unreadable: str | None = None  # which columns cannot be read; they are shown as empty

    @property
    def state(self) -> State:
        return self.lifecycle.state

    @property
    def progress_pct(self) -> float:
        total = self.chunks.total
        return round(100 * self.chunks.complete / total, 2) if total else 0.0


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
    due: float | None  # one column for two moments: see `lease_until` and `retry_at`
    progress: Progress
    error_class: str | None
    error_message: str | None
    payload: str | None
    write_fence: int | None
    planned_at: float

    @property
    def lease_until(self) -> float | None:
        """When the lease of a running chunk ends."""
        return self.due if self.status is Status.RUNNING else None

    @property
    def retry_at(self) -> float | None:
        """When a failed chunk may be claimed again."""
        return self.due if self.status is Status.FAILED else None

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
    """An abandoned chunk, with its missing partitions."""

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
class FollowRecord:
    """A follow, as it was at one moment."""

    cursor: Cursor
    standing: Backfill
    backfills: list[Backfill]  # all of the follow's
    unended: list[ChunkRow]  # of the standing one
    dead: list[ChunkRow]


@dataclass(frozen=True)
class NewChunk:
    """A chunk to append to a standing backfill: the heights `first` to `last`."""

    first: int
    last: int
    payload: str | None = None
    draw_fence: bool = False  # the job writes at a fence that is drawn now, in every run


@dataclass(frozen=True, kw_only=True)
class Append:
    """One step of a follow's leader, who proves with fence and version that it is the next one."""

    follow: str
    owner: str
    fence: int
    version: int  # of the cursor that this step is based on
    state: dict[str, Any] = field(hash=False)
    revoke: Span | None = None  # unfinished chunks that overlap these heights are cancelled
    replace: tuple[int, ...] = ()  # indices of dead letters that the new chunks replace
    chunks: tuple[NewChunk, ...] = ()
    backfills: tuple[BackfillRequest, ...] = ()  # closed ones of the same follow

    def __post_init__(self) -> None:
        for chunk in self.chunks:
            if not 0 <= chunk.first <= chunk.last <= HIGHEST:
                raise UsageError(f"{chunk.first}-{chunk.last} is not a range of heights")
        for request in self.backfills:
            if request.standing or request.follow != self.follow:
                raise UsageError(f"`{request.id}` is not a closed backfill of `{self.follow}`")


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

    @property
    def slots_by_queue(self) -> dict[str, int]:
        """Its slots by their own queue, including those for one backfill: `queue@backfill`."""
        found: dict[str, int] = {}
        for slot, count in self.slots.items():
            queue = slot.partition("@")[0]
            found[queue] = found.get(queue, 0) + count
        return found


@dataclass(frozen=True, kw_only=True)
class Queue:
    """A queue with the chunks of all its backfills, and the slots of live workers for it."""

    name: str
    paused_at: float | None = None
    active: int = 0  # running chunks
    pending: int = 0  # chunks that wait for a run, those that are not planned yet included
    retry: int = 0  # failed chunks that wait for their retry
    next_retry_at: float | None = None
    processed: int = 0  # completed chunks
    failed: int = 0  # failed runs
    dead: int = 0  # dead letters
    completed_per_minute: float = 0.0  # over the last minute
    oldest_wait: float | None = None  # seconds that the oldest chunk a slot could take has waited
    slots: int = 0
