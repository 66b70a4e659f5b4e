"""Which block a moment falls on, and how many calls it takes to find out."""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapless.blocks.timeline import UNKNOWN, Timeline
from gapless.core.errors import BadAnswer, MissingHistory

PACE = 12.0


class Blocks:
    """A chain that returns block times, and counts how often it is asked."""

    def __init__(self, times: Sequence[int], pruned_below: int = 0) -> None:
        self.times = times
        self.asked: list[int] = []
        self._pruned_below = pruned_below

    async def time_of(self, height: int) -> int:
        self.asked.append(height)
        if 0 < height < self._pruned_below:
            raise MissingHistory(f"nobody keeps {height}", height=height)
        return self.times[height]

    def timeline(self, marks: Sequence[int] = ()) -> Timeline:
        return Timeline(self.time_of, len(self.times) - 1, PACE, marks)


@given(
    st.lists(st.integers(0, 40), min_size=1, max_size=60),
    st.lists(st.integers(0, 2500), min_size=1, max_size=3),
    st.sets(st.integers(0, 59), max_size=5),
    st.booleans(),
)
def test_the_first_block_at_or_after_a_moment_is_found(
    steps: list[int], moments: list[int], marks: set[int], genesis_without_time: bool
) -> None:
    """At any pace, even with equal times; each block is requested once."""
    times = [*accumulate(steps, initial=1)]
    if genesis_without_time:
        times[0] = UNKNOWN
    blocks = Blocks(times)
    timeline = blocks.timeline([mark for mark in marks if mark < len(times)])
    for moment in moments:
        found = asyncio.run(timeline.first_since(moment))
        assert found == bisect_left(times, moment)
    assert len(blocks.asked) == len(set(blocks.asked))


def ethereum(blocks: int) -> list[int]:
    """Times that vary as before the merge, then every twelve seconds or with a gap."""
    chance = Random(7)
    merge = blocks * 3 // 4
    steps = [max(1, round(chance.expovariate(1 / 14))) for _ in range(merge)]
    steps += [24 if chance.random() < 0.01 else 12 for _ in range(blocks - merge - 1)]
    return [UNKNOWN, *accumulate(steps, initial=1_438_269_988)]


def test_few_blocks_are_requested() -> None:
    times = ethereum(400_000)
    chance = Random(1)
    for _ in range(50):
        blocks = Blocks(times)
        first, last = sorted(chance.randrange(times[1], times[-1]) for _ in range(2))
        timeline = blocks.timeline()
        for moment in (first, last):
            assert asyncio.run(timeline.first_since(moment)) == bisect_left(times, moment)
        assert len(blocks.asked) <= 26  # halving would take 38


def test_next_to_a_known_block_one_block_is_requested() -> None:
    times = ethereum(10_000)
    blocks = Blocks(times)
    timeline = blocks.timeline(marks=[5000, 6000])
    asyncio.run(timeline.first_since(times[5000] + 1))
    assert set(blocks.asked) - {0, 5000, 6000, len(times) - 1} == {5001}


def test_pruned_blocks_count_as_older() -> None:
    times = ethereum(10_000)
    blocks = Blocks(times, pruned_below=7000)
    assert asyncio.run(blocks.timeline().first_since(times[9000])) == 9000
    with pytest.raises(MissingHistory, match="nobody keeps 6999"):
        asyncio.run(blocks.timeline().first_since(times[6500]))


def test_decreasing_times_are_refused() -> None:
    times = ethereum(10_000)
    falling = [*times[:5000], *(time - 10**7 for time in times[5000:9999]), times[-1]]
    with pytest.raises(BadAnswer, match="is not between"):
        asyncio.run(Blocks(falling).timeline().first_since(times[5100]))
