"""Finds the block at a moment by looking at the times of a few blocks.

Block times never decrease, so a moment divides a chain in two. The search interpolates between two
blocks around the moment. The times of a real chain deviate from a straight line like a random walk,
so a guess is off by about the square root of its distance from the nearer block. Each guess is
therefore moved that much further away from the nearer block: the moment then usually lies in the
small interval between the two. For twenty million blocks at Ethereum's pace, this takes about eight
guesses.

A block that no endpoint keeps any more is assumed to be older than the moment. If it is adjacent to
the result, the result cannot be known, and that is an error.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Awaitable, Callable, Iterable
from itertools import count
from math import isqrt

from gapless.core.errors import BadAnswer, MissingHistory

UNKNOWN = 0  # the time of Ethereum's genesis, also used for blocks that no endpoint keeps
_GUESSES = 16  # guesses before falling back to bisection, for chains without a steady pace


class Timeline:
    """The times of the blocks up to a given one, in seconds since 1970."""

    def __init__(
        self,
        time_of: Callable[[int], Awaitable[int]],
        last: int,
        pace: float,
        marks: Iterable[int] = (),
    ) -> None:
        """`marks` are blocks to look at first, whose times `time_of` knows without a call."""
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
        """The first block at or after a moment; the last height + 1 if there is none."""
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
        """The adjacent marks before a moment and at or after it."""
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
                hint="use another endpoint, or heights instead of dates",
            )
        return time

    def _guess(self, moment: int, low: int, high: int) -> int:
        before, after = self._times[low], self._times[high]
        pace = self._pace if before == UNKNOWN else (after - before) / (high - low)
        place = min(max(low + 1, high - round((after - moment) / pace)), high - 1)
        if place - low < high - place:
            return min(place + isqrt(place - low - 1), high - 1)
        return max(place - isqrt(high - place - 1), low + 1)
