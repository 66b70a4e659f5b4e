"""Backfills and what their chunks wait for: `backfill ls`, `backfill show` and their relatives."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import msgspec
from msgspec import UNSET, Struct, UnsetType

from gapless.core.backfill import Lifecycle, State, Stop, describe
from gapless.core.retry import RetryKind, RetryPolicy
from gapless.ledger.records import Attempt, Backfill, ChunkCounts
from gapless.runtime.explain import Explanation
from gapless.views.moments import utc, utc_or_none


class RetryView(Struct, frozen=True, kw_only=True):
    """A retry policy with all its numbers, those that it does not use included."""

    kind: RetryKind
    base: float
    max_delay: float
    jitter: float
    retries: int
    delays: tuple[float, ...]
    lost_limit: int


class BackfillView(Struct, frozen=True, kw_only=True):
    """A backfill: what it is, how it is run, how far it is."""

    id: str
    state: State
    state_version: int
    stopping: Stop | None
    job: str
    job_version: int
    spec: dict[str, Any]
    parent_backfill_id: str | None
    retry_request_id: str | None
    group: str | None
    selector: dict[str, Any]
    partitions: int
    chunk_size: int
    max_concurrent_runs: int
    queue: str
    queue_paused: bool
    order: str
    retry: RetryView
    timeout: float | None
    chunks: ChunkCounts
    progress_pct: float
    error: str | None
    drift: str | None
    created_at: datetime
    started_at: datetime | None
    ended_at: datetime | None

    @property
    def phase(self) -> str:
        """The state as people read it: also `cancelling`, which is no state of its own."""
        return describe(Lifecycle(self.id, self.state, self.state_version, self.stopping))


class ExplanationView(Struct, frozen=True, kw_only=True):
    """Why a chunk, or what is not planned yet, does not run."""

    chunk_index: int | None
    status: str
    reason: str
    detail: str
    until: datetime | None
    partitions: str | None


class AttemptView(Struct, frozen=True, kw_only=True):
    """A failed run of a chunk."""

    attempt: int
    at: datetime
    worker: str
    error_class: str
    error_message: str
    traceback: str | None


class BackfillDetails(BackfillView, frozen=True, kw_only=True):
    """A backfill with what its chunks wait for; of one chunk, also its failed runs."""

    waiting: tuple[ExplanationView, ...]
    attempts: tuple[AttemptView, ...] | UnsetType = UNSET


def retry_view(policy: RetryPolicy) -> RetryView:
    return RetryView(**msgspec.structs.asdict(policy))


def backfill_view(backfill: Backfill) -> BackfillView:
    return BackfillView(**_fields(backfill))


def backfill_details(
    backfill: Backfill,
    waiting: Sequence[Explanation],
    attempts: Sequence[Attempt] | None = None,
) -> BackfillDetails:
    """A backfill in full; `attempts` are those of the one chunk that was asked about."""
    return BackfillDetails(
        **_fields(backfill),
        waiting=tuple(map(explanation_view, waiting)),
        attempts=UNSET if attempts is None else tuple(map(attempt_view, attempts)),
    )


def explanation_view(explanation: Explanation) -> ExplanationView:
    return ExplanationView(
        chunk_index=explanation.chunk_index,
        status=explanation.status,
        reason=explanation.reason,
        detail=explanation.detail,
        until=utc_or_none(explanation.until),
        partitions=explanation.partitions,
    )


def attempt_view(attempt: Attempt) -> AttemptView:
    return AttemptView(
        attempt=attempt.attempt,
        at=utc(attempt.at),
        worker=attempt.worker,
        error_class=attempt.error_class,
        error_message=attempt.error_message,
        traceback=attempt.traceback,
    )


def _fields(backfill: Backfill) -> dict[str, Any]:
    return {
        "id": backfill.id,
        "state": backfill.state,
        "state_version": backfill.lifecycle.state_version,
        "stopping": backfill.lifecycle.stopping,
        "job": backfill.job,
        "job_version": backfill.job_version,
        "spec": backfill.spec,
        "parent_backfill_id": backfill.parent_backfill_id,
        "retry_request_id": backfill.retry_request_id,
        "group": backfill.group,
        "selector": backfill.selector,
        "partitions": backfill.partitions,
        "chunk_size": backfill.chunk_size,
        "max_concurrent_runs": backfill.max_concurrent_runs,
        "queue": backfill.queue,
        "queue_paused": backfill.queue_paused,
        "order": backfill.order,
        "retry": retry_view(backfill.retry),
        "timeout": backfill.timeout,
        "chunks": backfill.chunks,
        "progress_pct": backfill.progress_pct,
        "error": backfill.error,
        "drift": backfill.drift,
        "created_at": utc(backfill.created_at),
        "started_at": utc_or_none(backfill.started_at),
        "ended_at": utc_or_none(backfill.ended_at),
    }
