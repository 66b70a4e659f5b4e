"""Blocks above every request were not final when they were stored."""

from __future__ import annotations

from gapless.core.ranges import RangeSet, Span
from gapless.sinks import Request
from gapless.verification.expected import above

STORED = RangeSet.of((0, 9))


def test_blocks_above_all_requests_are_not_final() -> None:
    requests = [Request(Span(0, 3), frozenset()), Request(Span(2, 6), frozenset())]
    assert above(requests, STORED) == RangeSet.of((7, 9))


def test_requested_blocks_are_final() -> None:
    assert not above([Request(Span(0, 20), frozenset())], STORED)


def test_without_requests_nothing_is_known() -> None:
    assert not above([], STORED)
