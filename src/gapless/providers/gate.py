"""A semaphore with a variable limit, first come, first served.

Invariant: the number of tasks inside never exceeds the limit at the time the last one entered, and
tasks enter in order. A lowered limit is reached as tasks leave. A task that is cancelled while it
waits, even at the moment it is admitted, does not use up a slot.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable


class Gate:
    """`async with gate:` waits for a slot and releases it."""

    def __init__(self, limit: Callable[[], int]) -> None:
        self._limit = limit
        self._queue: deque[asyncio.Future[None]] = deque()
        self.inside = 0

    @property
    def waiting(self) -> int:
        return sum(not turn.cancelled() for turn in self._queue)

    async def __aenter__(self) -> None:
        if not self._queue and self.inside < self._limit():
            self.inside += 1
            return
        turn = asyncio.get_running_loop().create_future()
        self._queue.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled():  # admitted at the same moment: release the slot
                self._leave()
            raise

    async def __aexit__(self, *error: object) -> None:
        self._leave()

    def admit(self) -> None:
        """Admit waiting tasks up to the limit."""
        while self._queue and self.inside < self._limit():
            turn = self._queue.popleft()
            if not turn.cancelled():
                self.inside += 1
                turn.set_result(None)

    def _leave(self) -> None:
        self.inside -= 1
        self.admit()
