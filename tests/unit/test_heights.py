"""Ranges of heights: the grammar, and how they resolve below a head."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from gapless.core.errors import BadSelector
from gapless.core.heights import Count, Heights, Moment, Tag, Tip, text_of
from gapless.core.ranges import Span


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("18M:18.005M", Heights(18_000_000, 18_005_000)),
        ("18000000:+5000", Heights(18_000_000, 18_004_999)),
        ("0:0", Heights(0, 0)),
        ("7", Heights(7, 7)),
        ("18M:latest", Heights(18_000_000, Tag.LATEST)),
        (":latest", Heights(0, Tag.LATEST)),
        (":finalized", Heights(0, Tag.FINALIZED)),
        ("5:", Heights(5, Tag.FINALIZED)),
        (":99", Heights(0, 99)),
        (" 1_000 : 2k ", Heights(1000, 2000)),
        ("1,000:18,000,000", Heights(1000, 18_000_000)),
    ],
)
def test_the_grammar(text: str, expected: Heights) -> None:
    assert Heights.parse(text) == expected


def day(text: str) -> Moment:
    begins = int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp())
    return Moment(text, begins, begins + 86_400)


def second(text: str) -> Moment:
    at = int(datetime.fromisoformat(text).timestamp())
    return Moment(text, at, at + 1)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2024-01-01:2024-01-31", Heights(day("2024-01-01"), day("2024-01-31"))),
        ("2024-02-29", Heights(day("2024-02-29"), day("2024-02-29"))),
        ("2024-01-01:latest", Heights(day("2024-01-01"), Tag.LATEST)),
        ("2024-01-01:", Heights(day("2024-01-01"), Tag.FINALIZED)),
        (":2024-01-01", Heights(0, day("2024-01-01"))),
        ("18M:2024-01-01", Heights(18_000_000, day("2024-01-01"))),
        ("2024-01-01 : 18M", Heights(day("2024-01-01"), 18_000_000)),
        ("2024-01-01:+5k", Heights(day("2024-01-01"), Count(5000))),
        (
            "2024-01-01T12:00:00Z:2024-01-01T12:30Z",
            Heights(second("2024-01-01T12:00:00Z"), second("2024-01-01T12:30Z")),
        ),
        (
            "2024-01-01T12:00:00Z:2024-01-01",
            Heights(second("2024-01-01T12:00:00Z"), day("2024-01-01")),
        ),
    ],
)
def test_dates_are_days_or_instants_in_utc(text: str, expected: Heights) -> None:
    heights = Heights.parse(text)
    assert heights == expected
    assert heights.is_dated


@pytest.mark.parametrize(
    ("text", "complaint", "hint"),
    [
        ("0-10", "`0-10` is not a height", "write a range as `0:10`"),
        ("0..10", "`0..10` is not a height", "write a range as `0:10`"),
        ("0,10", "`0,10` is not a height", "write a range as `0:10`"),
        ("0 10", "`0 10` is not a height", "write a range as `0:10`"),
        ("1,000,2,000", "`1,000,2,000` is not a height", "write a range as `1,000:2,000`"),
        ("0:latst", "`latst` is not a height", "did you mean `latest`?"),
        ("18M - latest", "`18M - latest` is not a height", "write a range as `18M:latest`"),
        (
            "2024-01-01..2024-01-31",
            "`2024-01-01..2024-01-31` is not a height",
            "write a range as `2024-01-01:2024-01-31`",
        ),
        ("2024-01", "`2024-01` is not a day", "write `2024-01-01`"),
        (
            "2024-02-30:latest",
            "there is no day `2024-02-30`",
            "write `2024-01-31` or `2024-01-31T12:00:00Z`",
        ),
        (
            "9999-12-31",
            "there is no day `9999-12-31`",
            "write `2024-01-31` or `2024-01-31T12:00:00Z`",
        ),
        (
            "2024-01-01T12:00:00:latest",
            "`2024-01-01T12:00:00` has no time zone",
            "for UTC, write `2024-01-01T12:00:00Z`",
        ),
        (
            "2024-01-31:2024-01-01",
            "`2024-01-31:2024-01-01` ends before it begins",
            "write `2024-01-01:2024-01-31`, or `2024-01-31:+N`",
        ),
    ],
)
def test_invalid_ranges_are_explained(text: str, complaint: str, hint: str) -> None:
    with pytest.raises(BadSelector) as refused:
        Heights.parse(text)
    assert (str(refused.value), refused.value.hint) == (complaint, hint)


def test_programs_may_give_a_range_or_a_pair() -> None:
    assert text_of("18M:+5") == "18M:+5"
    assert text_of(range(100, 200)) == "100:199"
    assert text_of((100, 200)) == "100:200"
    for nothing in (range(5, 5), range(0, 100, 2)):
        with pytest.raises(BadSelector, match="consecutive"):
            text_of(nothing)


@pytest.mark.parametrize(
    "text",
    [
        "",
        ":",
        "latest",
        "latest:5",
        "9:3",
        "5:+0",
        "a:b",
        "1:2:3",
        "-5:9",
        "2024-01-01T12:00:00+02:00",
    ],
)
def test_values_that_are_not_ranges(text: str) -> None:
    with pytest.raises(BadSelector):
        Heights.parse(text)


def test_tags_are_pinned_and_ends_clipped_to_the_final_block() -> None:
    tip = Tip(head=100, final=90, by_depth=False)
    assert tip.pin(Heights(10, 20)) == Span(10, 20)
    assert tip.pin(Heights(10, 95)) == Span(10, 90)
    assert tip.pin(Heights(10, Tag.LATEST)) == Span(10, 90)
    assert tip.pin(Heights(0, Tag.FINALIZED)) == Span(0, 90)
    with pytest.raises(BadSelector, match="not final"):
        tip.pin(Heights(91, 95))
