"""What a backfill in the foreground waits for, and for how long: nobody should wait in silence."""

from __future__ import annotations

from typing import Any, NamedTuple

from gapless.cli.options import commands
from gapless.core.backfill import State
from gapless.core.text import plain
from gapless.ledger import Ledger
from gapless.ledger.records import Backfill
from gapless.views.figures import duration


class Waiting(NamedTuple):
    """Why nothing happens; `seconds` until something will, if that is known."""

    reason: str
    seconds: float | None = None

    def __str__(self) -> str:
        left = "" if self.seconds is None else f" {duration(self.seconds)}"
        return f"waiting{left}: {plain(self.reason)}"

    def json(self) -> dict[str, Any]:
        seconds = None if self.seconds is None else round(self.seconds, 1)
        return {"reason": self.reason, "seconds": seconds}


async def standstill(ledger: Ledger, backfill: Backfill) -> Waiting | None:
    """Why nothing of a backfill runs; None if something does, or will at once."""
    if backfill.chunks.running:
        return None
    if backfill.state is State.PAUSED:
        return Waiting(f"paused; {commands()('backfill', 'resume', backfill.id)} resumes it")
    if backfill.queue_paused:
        resume = commands()("queues", "resume", backfill.queue)
        return Waiting(f"queue `{backfill.queue}` is paused; {resume} resumes it")
    if not backfill.chunks.failed:
        return None
    for chunk in await ledger.open_chunks(backfill.id, 1):
        if chunk.retry_at is not None:
            return Waiting(chunk.error_message or "", max(0.0, chunk.retry_at - backfill.now))
    return None
