"""Where a moment falls among blocks, by the times of a few of them.

Times never fall from block to block, so a moment divides a chain in two. The place is guessed from
two blocks around it, as if the chain had kept one pace between them. A real chain strays from that
line like a random walk, so a guess is off by about the square root of its distance. It is moved
that far beyond, as seen from the nearer block: mostly the moment then lies in the small space
between the two. Among twenty million blocks with Ethereum's pace that takes about eight guesses.

A block that no endpoint keeps any more is older than whatever is looked for; if it lies next to
the place in question, nobody can tell, and that is an error.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Awaitable, Callable, Iterable
from itertools import count
from math import isqrt

from gapless.core.errors import BadAnswer, MissingHistory

UNKNOWN = 0  # the time that Ethereum's genesis has, and a block that is not kept any more gets
_GUESSES = 16  # after which a chain without a steady pace is only halved


class Timeline:
    """The times of the blocks up to a last one, in seconds since 1970."""

    def __init__(
        self,
        time_of: Callable[[int], Awaitable[int]],
        last: int,
        pace: float,
        marks: Iterable[int] = (),
    ) -> None:
        """`marks` are blocks to look at first: `time_of` knows their times without a call."""
        self._time_of = time_of
        self._last = last
        self._pace = pace
        self._marks = sorted({0, last, *marks})
        self._times: dict[int, int] = {}
        self._gone: dict[int, MissingHistory] = {}

    async def time(self, height: int) -> int:
        if height not in self._times:
            try:
                self._times[height] = await self._time_of(height)
            except MissingHistory as error:
                self._gone[height], self._times[height] = error, UNKNOWN
        return self._times[height]

    async def start(self) -> int:
        """The time of the first block that has one."""
        return await self.time(0) or await self.time(min(1, self._last))

    async def end(self) -> int:
        return await self.time(self._last)

    async def first_since(self, moment: int) -> int:
        """The first block at or after a moment; one after the last block if none is."""
        low, high = await self._around(moment)
        for guesses in count():
            if high - low == 1:
                break
            halve = guesses >= _GUESSES
            middle = (low + high) // 2 if halve else self._guess(moment, low, high)
            insort(self._marks, middle)
            if await self._time_between(low, middle, high) < moment:
                low = middle
            else:
                high = middle
        if low in self._gone:
            raise self._gone[low]
        return high

    async def _around(self, moment: int) -> tuple[int, int]:
        """The marks before a moment and not before it."""
        before, after = 0, len(self._marks)
        while before < after:
            middle = (before + after) // 2
            if await self.time(self._marks[middle]) < moment:
                before = middle + 1
            else:
                after = middle
        edges = [-1, *self._marks, self._last + 1]
        return edges[before], edges[before + 1]

    async def _time_between(self, low: int, height: int, high: int) -> int:
        time = await self.time(height)
        if not self._times[low] <= time <= self._times[high]:
            raise self._gone.get(height) or BadAnswer(
                f"the time of block {height:,} is not between those of blocks {low:,} and {high:,}",
                hint="ask another endpoint, or write heights instead of dates",
            )
        return time

    def _guess(self, moment: int, low: int, high: int) -> int:
        before, after = self._times[low], self._times[high]
        pace = self._pace if before == UNKNOWN else (after - before) / (high - low)
        place = min(max(low + 1, high - round((after - moment) / pace)), high - 1)
        if place - low < high - place:
            return min(place + isqrt(place - low - 1), high - 1)
        return max(place - isqrt(high - place - 1), low + 1)
