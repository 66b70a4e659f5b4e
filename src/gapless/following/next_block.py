"""When to look at the head again: about when the next block is due.

The block time of a network is an average, and that of a custom network is a guess, so it is learned
from the blocks that were seen. A look a little too early costs one more look a second later, but it
tells when the block really came; so looks stay close to the blocks, whose lag is then half a second
on average, however long a block time is.
"""

from __future__ import annotations

from collections import deque

SOONEST = 1.0  # seconds between two looks
_EARLY = 0.25  # seconds
_REMEMBERED = 32  # heads


class NextBlock:
    """Expects the next block, from the heights and times of the last looks that found one."""

    def __init__(self, usual: float) -> None:
        """`usual` is the block time until it is learned, and the longest time between two looks."""
        self._usual = usual
        self._seen: deque[tuple[float, int]] = deque(maxlen=_REMEMBERED)

    def saw(self, height: int, now: float) -> None:
        """Takes note of the head at this time."""
        if self._seen and height < self._seen[-1][1]:
            self._seen.clear()
        if not self._seen or height > self._seen[-1][1]:
            self._seen.append((now, height))

    def pause(self, now: float) -> float:
        """Return how many seconds from now to look again."""
        if not self._seen:
            return self._usual
        block_time, since = self._block_time(), now - self._seen[-1][0]
        if since > 2 * block_time:  # it is late: do not hurry any more
            return max(SOONEST, block_time)
        return max(SOONEST, block_time - _EARLY - since)

    def _block_time(self) -> float:
        (began, low), (ended, high) = self._seen[0], self._seen[-1]
        return min(self._usual, (ended - began) / (high - low)) if high > low else self._usual
