"""Queues as a table. Pure, as `render` is."""

from __future__ import annotations

from collections.abc import Sequence

from gapless.cli.render import table
from gapless.views.figures import duration, short, time_text
from gapless.views.queues import QueueView

HEAD = (
    *("queue", "state", "active", "slots", "pending", "retry", "next retry"),
    *("processed", "failed", "dead", "per minute", "oldest wait"),
)


def queue_table(queues: Sequence[QueueView]) -> str:
    return table([HEAD, *(_row(queue) for queue in queues)])


def _row(queue: QueueView) -> tuple[str, ...]:
    wait = queue.oldest_wait_seconds
    return (
        queue.name,
        "paused" if queue.paused else "open",
        f"{queue.active:,}",
        f"{queue.slots:,}",
        f"{queue.pending:,}",
        f"{queue.retry:,}",
        "-" if queue.next_retry_at is None else time_text(queue.next_retry_at),
        f"{queue.processed:,}",
        f"{queue.failed:,}",
        f"{queue.dead:,}",
        short(queue.completed_per_minute),
        "-" if wait is None else duration(wait),
    )
