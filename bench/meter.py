"""The budget of a provider that meters calls."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic


class Meter:
    """At most `rps` calls per second, after one second's budget at once.

    A request that asks for more than is left is refused as a whole and costs nothing. So a batch
    larger than one second's budget is never answered: the client has to split it.
    """

    def __init__(self, rps: float, clock: Callable[[], float] = monotonic) -> None:
        self._rps, self._clock = rps, clock
        self._left, self._at = rps, clock()

    def take(self, calls: int) -> bool:
        now = self._clock()
        self._left = min(self._rps, self._left + (now - self._at) * self._rps)
        self._at = now
        if self._left < calls:
            return False
        self._left -= calls
        return True
