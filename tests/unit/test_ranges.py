"""A `RangeSet` behaves as the set of its members, however it was put together."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapless.core.errors import BadSelector
from gapless.core.ranges import RangeSet, Span, parse_number

spans = st.tuples(st.integers(-60, 60), st.integers(0, 12)).map(lambda it: (it[0], sum(it)))
range_sets = st.lists(spans, max_size=8).map(RangeSet)
positions = st.integers(-5, 150)


@given(st.lists(spans, max_size=8))
def test_it_holds_the_members_of_its_spans(given_spans: list[tuple[int, int]]) -> None:
    members = {n for first, last in given_spans for n in range(first, last + 1)}
    ranges = RangeSet(given_spans)
    assert list(ranges) == sorted(members)
    assert len(ranges) == len(members)
    assert bool(ranges) == bool(members)
    assert all((n in ranges) == (n in members) for n in range(-75, 90))


@given(range_sets)
def test_its_spans_neither_overlap_nor_touch(ranges: RangeSet) -> None:
    for before, after in zip(ranges.spans, ranges.spans[1:], strict=False):
        assert before.first <= before.last < after.first - 1


@given(range_sets)
def test_the_same_members_make_equal_sets(ranges: RangeSet) -> None:
    again = RangeSet.from_members(reversed(list(ranges)))
    assert again == ranges
    assert hash(again) == hash(ranges)
    assert RangeSet.of(*ranges.spans) == ranges


@given(range_sets, range_sets)
def test_union_difference_and_intersection_are_those_of_sets(a: RangeSet, b: RangeSet) -> None:
    assert set(a | b) == set(a) | set(b)
    assert set(a - b) == set(a) - set(b)
    assert set(a & b) == set(a) & set(b)


@given(range_sets, range_sets)
def test_what_is_taken_away_and_what_is_kept_make_the_whole(a: RangeSet, b: RangeSet) -> None:
    assert (a - b) | (a & b) == a
    assert not (a - b) & b
    assert a - a == RangeSet()


@given(range_sets, spans)
def test_it_overlaps_a_span_that_has_one_of_its_members(
    ranges: RangeSet, span: tuple[int, int]
) -> None:
    assert ranges.overlaps(Span(*span)) == bool(ranges & RangeSet.of(span))


@given(range_sets)
def test_position_is_the_inverse_of_at(ranges: RangeSet) -> None:
    members = list(ranges)
    assert [ranges.at(position) for position in range(len(ranges))] == members
    assert [ranges.position(member) for member in members] == list(range(len(ranges)))


@given(range_sets, positions, positions)
def test_a_slice_holds_the_members_at_its_positions(a: RangeSet, first: int, last: int) -> None:
    assert list(a.slice(first, last)) == list(a)[max(first, 0) : max(last + 1, 0)]


@given(range_sets, st.integers(-100, 100))
def test_only_members_have_a_position(ranges: RangeSet, member: int) -> None:
    if member in ranges:
        assert ranges.at(ranges.position(member)) == member
    else:
        with pytest.raises(ValueError, match=f"{member} is not in"):
            ranges.position(member)


@given(range_sets)
def test_there_is_nothing_before_the_first_or_behind_the_last(ranges: RangeSet) -> None:
    for position in (-1, len(ranges)):
        with pytest.raises(IndexError):
            ranges.at(position)


def test_ten_million_members_cost_no_more_than_one() -> None:
    ranges = RangeSet.of((0, 10**7 - 1)) - RangeSet.of((5, 5))
    assert len(ranges) == 10**7 - 1
    assert (ranges.at(5), ranges.at(10**7 - 2)) == (6, 10**7 - 1)
    assert ranges.slice(4, 5) == RangeSet.of((4, 4), (6, 6))


def test_an_inverted_span_is_a_mistake() -> None:
    with pytest.raises(ValueError, match="inverted span 3-2"):
        RangeSet.of((3, 2))


def test_it_is_written_as_people_read_it() -> None:
    assert repr(RangeSet.of((1, 3), (9, 9))) == "RangeSet(1-3, 9)"
    assert RangeSet.of((1, 3)) != "RangeSet(1-3)"
    assert (str(Span(4, 4)), str(Span(4, 6)), Span(4, 6).size) == ("4", "4-6", 3)


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("0", 0),
        ("18000000", 18_000_000),
        ("18_000_000", 18_000_000),
        ("18,000,000", 18_000_000),
        ("18M", 18_000_000),
        ("18.005M", 18_005_000),
        ("1.5k", 1500),
        (" 2 b ", 2 * 10**9),
    ],
)
def test_numbers_are_read_as_people_write_them(text: str, number: int) -> None:
    assert parse_number(text) == number


@pytest.mark.parametrize(
    "text", ["", "M", "-1", "1e6", "1.2.3", "0x10", "1.0005k", "ten", "0,10", "1,00", "1,0000"]
)
def test_what_is_no_whole_number_is_refused(text: str) -> None:
    with pytest.raises(BadSelector, match=f"`{text}` is not a"):
        parse_number(text)


@given(spans.map(lambda it: Span(*it)), st.integers(1, 20))
def test_windows_are_the_span_cut_at_multiples(span: Span, size: int) -> None:
    windows = [*span.windows(size)]
    assert (windows[0].first, windows[-1].last) == span
    for before, after in pairwise(windows):
        assert before.last + 1 == after.first
        assert after.first % size == 0
    assert max(window.size for window in windows) <= size
