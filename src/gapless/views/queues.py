"""Queues: `queues`."""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct

from gapless.ledger.records import Queue
from gapless.views.moments import utc_or_none


class QueueView(Struct, frozen=True, kw_only=True):
    """A queue: whether it is paused, its chunks, and the slots of live workers for it."""

    name: str
    paused: bool
    paused_at: datetime | None
    active: int
    slots: int
    pending: int
    retry: int
    next_retry_at: datetime | None
    processed: int
    failed: int
    dead: int
    completed_per_minute: float
    oldest_wait_seconds: float | None


def queue_view(queue: Queue) -> QueueView:
    return QueueView(
        name=queue.name,
        paused=queue.paused_at is not None,
        paused_at=utc_or_none(queue.paused_at),
        active=queue.active,
        slots=queue.slots,
        pending=queue.pending,
        retry=queue.retry,
        next_retry_at=utc_or_none(queue.next_retry_at),
        processed=queue.processed,
        failed=queue.failed,
        dead=queue.dead,
        completed_per_minute=round(queue.completed_per_minute, 1),
        oldest_wait_seconds=None if queue.oldest_wait is None else round(queue.oldest_wait, 1),
    )
