"""Rows about queues: of `paused_queues`, and sums over the backfills of a queue."""

from __future__ import annotations

import msgspec


class PausedQueue(msgspec.Struct, frozen=True):
    name: str
    paused_at: float


class QueueTotals(msgspec.Struct, frozen=True):
    """What became of the chunks of all backfills of a queue."""

    name: str
    processed: int
    failed: int
    dead: int
    completed_per_minute: float


class QueueBacklog(msgspec.Struct, frozen=True):
    """The open chunks of a queue; the waits are in seconds, None if nothing could be claimed."""

    name: str
    active: int
    pending: int
    retry: int
    next_retry_at: float | None
    pending_wait: float | None
    retry_wait: float | None


class FailureCounters(msgspec.Struct, frozen=True):
    """Counters of a backfill, and the number of rows that one of them stands for."""

    failed_runs: int
    purged: int
    purged_rows: int
