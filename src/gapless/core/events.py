"""The events of a backfill, in an append-only log.

The tables of a ledger change in the transaction that appends the event, and folding the events
reproduces the tables (`gapless.core.projection`). An idempotency key keeps an event from being
appended twice. Claims, heartbeats and progress leave no event.
"""

from __future__ import annotations

from typing import Any, ClassVar

import msgspec

from gapless.core.chunk import Status, chunk_id, run_key


class Event(msgspec.Struct, frozen=True, tag=True, tag_field="type"):
    backfill_id: str

    @property
    def idempotency_key(self) -> str:
        raise NotImplementedError


class BackfillCreated(Event, frozen=True, omit_defaults=True):
    """A backfill was requested. The event is small, however much it selects."""

    job: str
    job_version: int
    selector: dict[str, Any]
    selection: str
    partitions: int
    chunk_size: int
    max_concurrent_runs: int
    queue: str
    order: str
    retry: dict[str, Any]
    parent_backfill_id: str | None = None
    retry_request_id: str | None = None
    group: str | None = None
    spec: dict[str, Any] = {}
    timeout: float | None = None
    standing: bool = False
    follow: str | None = None
    precedence: int = 0

    @property
    def idempotency_key(self) -> str:
        return f"backfill_created:{self.backfill_id}"


class BackfillStateChanged(Event, frozen=True):
    from_state: str
    to_state: str
    state_version: int

    @property
    def idempotency_key(self) -> str:
        return f"backfill_state:{self.backfill_id}:{self.state_version}:{self.to_state}"


class BackfillStopRequested(Event, frozen=True):
    """Nothing new is planned or claimed from here on; `reason` is `cancel` or `halt`."""

    reason: str

    @property
    def idempotency_key(self) -> str:
        return f"backfill_stop:{self.backfill_id}:{self.reason}"


class BackfillChunkPlanned(Event, frozen=True):
    """A chunk was planned. The same row requests its run, so neither exists alone."""

    chunk_index: int
    first: int
    last: int

    @property
    def idempotency_key(self) -> str:
        return f"backfill_chunk:{self.backfill_id}:{self.chunk_index}"

    @property
    def chunk_id(self) -> str:
        return chunk_id(self.backfill_id, self.chunk_index)

    @property
    def run_requested(self) -> RunRequested:
        return RunRequested(self.backfill_id, run_key(self.backfill_id, self.chunk_index))


class RunRequested(Event, frozen=True):
    run_key: str

    @property
    def idempotency_key(self) -> str:
        return f"run_requested:{self.run_key}"


class ChunkFailed(Event, frozen=True):
    """A run ended with an error, or its worker was lost."""

    chunk_index: int
    fence: int
    attempts: int
    lost: int
    error_class: str
    error_message: str
    worker: str | None = None  # missing in events that are older than this field

    @property
    def idempotency_key(self) -> str:
        return f"chunk_failed:{self.backfill_id}:{self.chunk_index}:{self.fence}"


class ChunkEnded(Event, frozen=True):
    chunk_index: int
    status: Status

    @property
    def idempotency_key(self) -> str:
        return f"chunk_ended:{self.backfill_id}:{self.chunk_index}"


class BackfillCompacted(Event, frozen=True):
    """Replaces the chunk events of an ended backfill: their number and their outcome."""

    events: int
    complete: int
    abandoned: int
    cancelled: int
    digest: str

    @property
    def idempotency_key(self) -> str:
        return f"backfill_compacted:{self.backfill_id}"


class BackfillFolded(Event, frozen=True):
    """Ended chunks were deleted with their events: how many so far, by status.

    A standing backfill has one such event, which is replaced each time, and which also counts the
    ended backfills of its follow that were deleted. In any other backfill, it means that the rest
    is being deleted too.
    """

    complete: int
    abandoned: int
    cancelled: int
    backfills: int

    @property
    def idempotency_key(self) -> str:
        return f"backfill_folded:{self.backfill_id}"


AnyEvent = (
    BackfillCreated
    | BackfillStateChanged
    | BackfillStopRequested
    | BackfillChunkPlanned
    | RunRequested
    | ChunkFailed
    | ChunkEnded
    | BackfillCompacted
    | BackfillFolded
)


class Codec:
    """Events as the ledger stores them: a type, and a payload without the columns of the table."""

    CHUNK_TYPES: ClassVar[tuple[str, ...]] = ("BackfillChunkPlanned", "ChunkFailed", "ChunkEnded")
    CHUNK_FIELD: ClassVar[str] = "chunk_index"
    """The field of these events that names their chunk."""

    @staticmethod
    def payload(event: Event) -> str:
        fields = msgspec.to_builtins(event)
        del fields["type"], fields["backfill_id"]
        return msgspec.json.encode(fields).decode()

    @staticmethod
    def decode(kind: str, backfill_id: str, payload: str) -> AnyEvent:
        fields = msgspec.json.decode(payload) | {"type": kind, "backfill_id": backfill_id}
        event: AnyEvent = msgspec.convert(fields, AnyEvent)
        return event
