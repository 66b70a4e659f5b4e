"""Lets so many in at once, first come first served, while the limit itself moves.

Invariant: never more inside than the limit was when the last one entered; nobody overtakes.
A lowered limit is reached as those inside leave. Somebody who is cancelled in the queue, even at
the very moment of being let in, takes no place with them.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable


class Gate:
    """`async with gate:` waits for a place and gives it back."""

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
            if not turn.cancelled():  # let in at the same moment: the place goes on
                self._leave()
            raise

    async def __aexit__(self, *error: object) -> None:
        self._leave()

    def admit(self) -> None:
        """Lets in whom the limit has room for."""
        while self._queue and self.inside < self._limit():
            turn = self._queue.popleft()
            if not turn.cancelled():
                self.inside += 1
                turn.set_result(None)

    def _leave(self) -> None:
        self.inside -= 1
        self.admit()
