"""A follower looks at the head about when the next block is due."""

from __future__ import annotations

from statistics import median

import pytest

from gapless.following.next_block import SOONEST, NextBlock


def looks_at(
    block_time: float, blocks: int, usual: float, began: float = 0.4
) -> tuple[list[float], int]:
    """The lags of the blocks of a regular chain until they are seen, and the number of looks."""
    expected, now, seen, looks = NextBlock(usual), began, 0, 0
    lags = []
    while seen < blocks:
        head = int(now / block_time)
        lags += [now - height * block_time for height in range(seen + 1, head + 1)]
        seen, looks = max(seen, head), looks + 1
        expected.saw(head, now)
        pause = expected.pause(now)
        assert SOONEST <= pause <= usual
        now += pause
    return lags, looks


@pytest.mark.parametrize("began", [0.1, 0.5, 0.9])  # block times after a block
@pytest.mark.parametrize("block_time", [2, 3, 5, 12])
def test_a_new_block_is_soon_seen_within_a_second(block_time: float, began: float) -> None:
    lags, looks = looks_at(block_time, 200, usual=12, began=began * block_time)
    settled = lags[10:]
    assert median(settled) < 0.7
    assert max(settled) < 1.5
    assert looks < 1.6 * 200


def test_fast_blocks_are_looked_at_once_a_second() -> None:
    _, looks = looks_at(0.25, 400, usual=1)
    assert looks <= 102


def test_a_look_that_finds_nothing_is_repeated_ever_sooner() -> None:
    expected = NextBlock(12)
    expected.saw(6, 88.0)
    expected.saw(7, 100.0)
    assert expected.pause(100.0) == 6
    expected.saw(7, 106.0)
    assert expected.pause(106.0) == 3
    expected.saw(7, 111.5)
    assert expected.pause(111.5) == SOONEST


def test_the_first_looks_are_soon_and_then_ever_later() -> None:
    expected = NextBlock(12)
    pauses, now = [], 100.0
    for _ in range(4):
        expected.saw(7, now)
        pauses.append(expected.pause(now))
        now += pauses[-1]
    assert pauses[:3] == [1, 2, 4]


@pytest.mark.parametrize("began", [0.1, 0.5, 0.9])
def test_no_block_waits_until_an_unknown_block_time_is_learned(began: float) -> None:
    lags, _ = looks_at(2, 20, usual=12, began=began * 2)
    assert max(lags) < 2.5


def test_a_chain_that_stands_still_is_looked_at_once_per_block_time() -> None:
    expected = NextBlock(12)
    expected.saw(7, 100.0)
    assert expected.pause(125.0) == 12


def test_a_lower_head_begins_anew() -> None:
    expected = NextBlock(12)
    for height, now in ((7, 100.0), (8, 103.0), (5, 104.0)):
        expected.saw(height, now)
    assert expected.pause(104.0) == SOONEST
