"""When to look at the head again: about when the next block is due.

The block time of a network is an average, and that of a custom network is a guess, so it is learned
from the blocks that were seen. A block came between the look that found it and the one before, and
the next one is due a block time later. Looking in the middle of that time halves it for the block
after, whether or not the block is there; one that is not there is looked for again soon. So the lag
of a block is soon a second at most, however long a block time is.

Until a second block was seen, nothing is learned. So the first looks are soon, and each pause is
twice the one before.
"""

from __future__ import annotations

from collections import deque
from math import inf

SOONEST = 1.0  # seconds between two looks
_EARLY = 0.25  # seconds
_REMEMBERED = 32  # heads
_FEW = 8  # heads: from fewer, the block time is not learned well


class NextBlock:
    """Expects the next block, from the heights and times of the last looks that found one."""

    def __init__(self, usual: float) -> None:
        """`usual` is the block time until it is learned, and the longest time between two looks."""
        self._usual = usual
        self._seen: deque[tuple[float, int]] = deque(maxlen=_REMEMBERED)
        self._looked_at = self._not_before = -inf  # the last block came after `_not_before`
        self._in_vain = 0  # looks since the first one that found no other block

    def saw(self, height: int, now: float) -> None:
        """Takes note of the head at this time."""
        if self._seen and height < self._seen[-1][1]:
            self._seen.clear()
        if not self._seen:
            self._not_before, self._in_vain = now - self._usual, 0
            self._seen.append((now, height))
        elif (blocks := height - self._seen[-1][1]) > 0:
            shortest = self._shortest(height)
            self._seen.append((now, height))
            few = len(self._seen) <= _FEW
            earliest = self._not_before + blocks * (shortest if few else self._block_time())
            if blocks == 1:
                earliest = max(earliest, self._looked_at)
            self._not_before = min(now, earliest)
        else:
            self._in_vain += 1
        self._looked_at = now

    def pause(self, now: float) -> float:
        """Return how many seconds from now to look again."""
        if not self._seen:
            return self._usual
        block_time, seen_at = self._block_time(), self._seen[-1][0]
        if self.is_late(now):  # do not hurry any more
            return max(SOONEST, block_time)
        due = seen_at + block_time
        middle = (max(now, self._not_before + block_time) + due) / 2
        pause = max(SOONEST, min(middle, due - _EARLY) - now)
        return pause if len(self._seen) > 1 else min(pause, SOONEST * 2**self._in_vain)

    def is_late(self, now: float) -> bool:
        """Whether the next block is overdue by more than a block time."""
        return bool(self._seen) and now - self._seen[-1][0] > 2 * self._block_time()

    def _shortest(self, height: int) -> float:
        """The least that the block time can be: few looks tell it within a second or more.

        The first block was there when it was seen, and the new one not yet at the look before.
        """
        began, low = self._seen[0]
        return min(self._usual, (self._looked_at - began) / (height - low))

    def _block_time(self) -> float:
        (began, low), (ended, high) = self._seen[0], self._seen[-1]
        return min(self._usual, (ended - began) / (high - low)) if high > low else self._usual
