"""How a worker logs and retries while its ledger is unreachable.

It logs each reason once, and again every minute, and logs when the outage is over. It retries with
growing pauses for as long as it runs.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from gapless.core.errors import LedgerError
from gapless.telemetry import log

LONGEST_PAUSE = 15.0
REPEAT_SECONDS = 60.0


class Outage:
    """The outage as seen by the loops of a worker, each of which has a name."""

    def __init__(self, poll_seconds: float, now: Callable[[], float]) -> None:
        self._poll_seconds = poll_seconds
        self._now = now
        self._failing: set[str] = set()
        self._failures = 0
        self._began = 0.0
        self._told: dict[str, float] = {}

    def note(self, loop: str, error: LedgerError) -> None:
        """Records that a loop could not reach the ledger."""
        now = self._now()
        if not self._failing:
            self._began = now
        self._failing.add(loop)
        reason = str(error)
        if now - self._told.get(reason, float("-inf")) >= REPEAT_SECONDS:
            self._told[reason] = now
            hint = {"hint": error.hint} if error.hint else {}
            log(logging.WARNING, "ledger_unreachable", error=error, **hint)

    def over(self, loop: str) -> None:
        """Records that a loop has reached the ledger."""
        if loop not in self._failing:
            return
        self._failing.discard(loop)
        if not self._failing:
            self._failures = 0
            self._told.clear()
            log(logging.INFO, "ledger_recovered", seconds=round(self._now() - self._began, 3))

    def pause(self) -> float:
        """How long to wait before the next attempt."""
        self._failures += 1
        doubled = self._poll_seconds * 2.0 ** min(self._failures - 1, 30)
        return min(doubled, max(LONGEST_PAUSE, self._poll_seconds))
