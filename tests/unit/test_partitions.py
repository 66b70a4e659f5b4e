"""Keys and ordinals both identify a partition, in any year."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapless.core.errors import BadSelector, UsageError
from gapless.core.partitions import (
    CALENDARS,
    Counted,
    OrdinalScheme,
    Window,
    Windows,
    block_heights,
    daily,
    epochs,
    hourly,
    monthly,
    static,
)

KINDS = ("hourly", "daily", "monthly")
moments = st.datetimes(datetime(1, 1, 1), datetime(9999, 11, 30)).map(  # noqa: DTZ001
    lambda moment: moment.replace(tzinfo=UTC)
)


@given(st.sampled_from(KINDS), moments)
def test_key_and_ordinal_are_inverse_in_any_year(kind: str, moment: datetime) -> None:
    calendar = Windows(kind)
    ordinal = calendar.parse_moment(moment)
    assert calendar.parse(calendar.key(ordinal)) == ordinal


@given(st.sampled_from(KINDS), moments)
def test_every_moment_lies_in_exactly_one_window(kind: str, moment: datetime) -> None:
    calendar = Windows(kind)
    ordinal = calendar.parse_moment(moment)
    window = calendar.partition(ordinal)
    assert window.start <= moment < window.end
    assert calendar.partition(ordinal + 1).start == window.end
    assert window == calendar.key(ordinal)


@given(st.sampled_from(KINDS), moments)
def test_keys_sort_like_times(kind: str, moment: datetime) -> None:
    calendar = Windows(kind)
    ordinal = calendar.parse_moment(moment)
    assert calendar.key(ordinal) < calendar.key(ordinal + 1)


@pytest.mark.parametrize(
    ("kind", "key", "ordinal"),
    [
        ("hourly", "1970-01-01T00", 0),
        ("hourly", "1969-12-31T23", -1),
        ("hourly", "2038-01-19T04", 596_524),
        ("daily", "1970-01-01", 0),
        ("daily", "1969-12-31", -1),
        ("daily", "0001-01-01", -719_162),
        ("daily", "2038-01-20", 24_856),
        ("daily", "2100-03-01", 47_541),
        ("monthly", "1970-01", 0),
        ("monthly", "1969-12", -1),
        ("monthly", "2040-02", 841),
    ],
)
def test_windows_are_counted_from_1970(kind: str, key: str, ordinal: int) -> None:
    assert Windows(kind).parse(key) == ordinal
    assert Windows(kind).key(ordinal) == key


def test_a_window_has_bounds() -> None:
    window = Windows("monthly").partition(Windows("monthly").parse("2024-02"))
    assert isinstance(window, Window)
    assert window.end - window.start == timedelta(days=29)


@pytest.mark.parametrize(
    ("kind", "key", "example"),
    [
        ("hourly", "2024-01-31", "2024-01-31T05"),
        ("daily", "2024-02-30", "2024-01-31"),
        ("daily", "31.01.2024", "2024-01-31"),
        ("monthly", "2024-13", "2024-01"),
    ],
)
def test_a_malformed_key_is_refused_with_an_example(kind: str, key: str, example: str) -> None:
    with pytest.raises(BadSelector, match=f"`{key}` is not a key of {kind} partitions") as error:
        Windows(kind).parse(key)
    assert error.value.hint == f"write it as `{example}`"


@pytest.mark.parametrize(("kind", "key"), [("daily", "9999-12-31"), ("monthly", "9999-12")])
def test_a_window_that_would_end_after_the_year_9999_does_not_exist(kind: str, key: str) -> None:
    with pytest.raises(BadSelector, match="from the year 1 to the year 9999 only"):
        Windows(kind).parse(key)
    with pytest.raises(BadSelector, match="from the year 1 to the year 9999 only"):
        Windows(kind).key(10**9)


def test_windows_have_tags_to_filter_by() -> None:
    hour = Windows("hourly")
    assert hour.tags(hour.parse("2024-02-29T05")) == {
        "year": "2024",
        "month": "2",
        "day": "29",
        "weekday": "thursday",
        "hour": "5",
    }
    assert Windows("monthly").tags(0) == {"year": "1970", "month": "1"}


@given(st.integers(0, 10**15))
def test_heights_are_their_own_ordinals(height: int) -> None:
    heights = Counted("blocks")
    assert heights.parse(heights.key(height)) == heights.partition(height) == height


def test_heights_have_no_tags() -> None:
    with pytest.raises(BadSelector, match="`blocks` have no tags"):
        CALENDARS["blocks"].tags(1)


def test_only_existing_partitions_have_an_ordinal() -> None:
    scheme = block_heights(100, 200)
    assert scheme.ordinal("150") == 150
    for key in ("99", "201"):
        with pytest.raises(BadSelector, match=f"there is no partition `{key}`") as error:
            scheme.ordinal(key)
        assert error.value.hint == "the job's blocks partitions go from `100` to `200`"
    with pytest.raises(BadSelector) as error:
        daily("2024-01-01").ordinal("2023-12-31")
    assert error.value.hint == "the job's daily partitions go from `2024-01-01` on"


@pytest.mark.parametrize(
    ("scheme", "kind", "size"),
    [
        (block_heights("18M"), "blocks", 1000),
        (hourly("2024-01-01T00"), "hourly", 1),
        (daily("2024-01-01", "2024-01-31"), "daily", 1),
        (monthly("2024-01"), "monthly", 1),
        (epochs(), "epochs", 1),
    ],
)
def test_each_kind_has_its_own_chunk_size(scheme: OrdinalScheme, kind: str, size: int) -> None:
    assert (scheme.kind, scheme.default_chunk_size) == (kind, size)
    assert scheme.ordinal(scheme.key(scheme.first)) == scheme.first


def test_bounds_must_not_be_inverted() -> None:
    with pytest.raises(BadSelector, match="end at `5`, before their start `9`"):
        block_heights(9, 5)
    assert block_heights(9, 9).last == 9


def test_a_catalog_keeps_its_order_and_its_tags() -> None:
    assert list(static(["b", "a"]).catalog) == ["b", "a"]
    assert static({"eth": {"layer": "1"}}).catalog == {"eth": {"layer": "1"}}
    assert (static(["a"]).kind, static(["a"]).default_chunk_size) == ("static", 1)
    with pytest.raises(UsageError, match="at least one key"):
        static([])


@pytest.mark.parametrize(
    ("key", "problem"),
    [
        (7, "is not text"),
        (b"a", "is not text"),
        (None, "is not text"),
        ("", "is empty"),
        ("a\0b", "holds a NUL"),
        ("a\ud800", "holds half of a surrogate pair"),
        ("a" * 513, "has more than 512 characters"),
    ],
)
def test_a_static_key_is_text_that_every_ledger_can_store(key: Any, problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        static(["good", key])
    with pytest.raises(UsageError, match=problem):
        static({"good": {}, key: {}})
    if key != "":
        with pytest.raises(UsageError, match=problem):
            static({"good": {"tag": key}})


def test_static_keys_of_any_script_are_accepted() -> None:
    assert list(static(["größe", "東京", "🦀", "a" * 512]).catalog)
