"""A selector means one selection, for good; positions name its partitions."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapless.core.errors import BadSelector
from gapless.core.partitions import Scheme, block_heights, daily, hourly, static
from gapless.core.ranges import HIGHEST, RangeSet
from gapless.core.selector import (
    Explicit,
    Filter,
    Range,
    Selection,
    Selector,
    all_heights,
    of_ordinals,
    resolve,
    summary,
)

CHAINS = static({"eth": {"layer": "1"}, "base": {"layer": "2"}, "arb": {"layer": "2", "x": "y"}})
selections = st.one_of(
    st.sets(st.integers(0, 500), min_size=1, max_size=30).map(
        lambda heights: of_ordinals("blocks", RangeSet.from_members(heights))
    ),
    st.sets(st.integers(-900, 900), min_size=1, max_size=30).map(
        lambda days: of_ordinals("daily", RangeSet.from_members(days))
    ),
    st.lists(st.text(min_size=1, max_size=5), unique=True, min_size=1, max_size=30).map(
        lambda keys: Selection("static", keys=tuple(keys))
    ),
)


@given(selections)
def test_position_is_the_inverse_of_partition(selection: Selection) -> None:
    for position in range(len(selection)):
        assert selection.position(selection.partition(position)) == position
        assert selection.position(selection.key(position)) == position


@given(selections, st.data())
def test_a_slice_holds_the_partitions_at_its_positions(selection: Selection, data: Any) -> None:
    first = data.draw(st.integers(0, len(selection) - 1))
    last = data.draw(st.integers(first, len(selection) - 1))
    expected = [selection.partition(position) for position in range(first, last + 1)]
    assert list(selection.slice(first, last)) == expected
    assert selection.all_keys()[first : last + 1] == [str(each) for each in expected]


@given(selections, st.sets(st.integers(0, 29)))
def test_picking_positions_selects_just_those(selection: Selection, wanted: set[int]) -> None:
    positions = RangeSet.from_members(at for at in wanted if at < len(selection))
    picked = selection.pick(positions)
    assert picked.all_keys() == [selection.key(position) for position in positions]


@given(selections, st.sets(st.integers(0, 29)))
def test_taking_a_part_away_leaves_the_rest(selection: Selection, wanted: set[int]) -> None:
    positions = RangeSet.from_members(at for at in wanted if at < len(selection))
    part, whole = selection.pick(positions), RangeSet.of((0, len(selection) - 1))
    assert selection.without(part) == selection.pick(whole - positions)


@given(selections)
def test_it_survives_storage_under_the_same_hash(selection: Selection) -> None:
    again = Selection.decode(selection.encode())
    assert again == selection
    assert again.digest == selection.digest


@given(selections, selections)
def test_different_selections_have_different_hashes(a: Selection, b: Selection) -> None:
    assert (a == b) == (a.digest == b.digest)


@pytest.mark.parametrize(
    ("selector", "scheme", "keys"),
    [
        (Range("5", "8"), block_heights(), ["5", "6", "7", "8"]),
        (Range("5", "5"), block_heights(), ["5"]),
        (Range("1k", "+3"), block_heights(), ["1000", "1001", "1002"]),
        (
            Range("2024-02-28", "+3"),
            daily("2020-01-01"),
            ["2024-02-28", "2024-02-29", "2024-03-01"],
        ),
        (Explicit(("9", "3", "4", "3")), block_heights(), ["3", "4", "9"]),
        (
            Filter({"weekday": "sunday"}),
            daily("2024-01-01", "2024-01-14"),
            ["2024-01-07", "2024-01-14"],
        ),
        (Range("base", "arb"), CHAINS, ["base", "arb"]),
        (Explicit(("arb", "eth", "arb")), CHAINS, ["arb", "eth"]),
        (Filter({"layer": "2"}), CHAINS, ["base", "arb"]),
        (Filter({}), CHAINS, ["eth", "base", "arb"]),
    ],
)
def test_what_a_selector_means(selector: Selector, scheme: Scheme, keys: list[str]) -> None:
    assert resolve(selector, scheme).all_keys() == keys


@pytest.mark.parametrize(
    ("selector", "scheme", "problem", "hint"),
    [
        (Range("8", "5"), block_heights(), "`8:5` is inverted", "write `5:8`"),
        (Range("8", "+0"), block_heights(), "`8:\\+0` is empty", None),
        (Range("8", "+9"), block_heights(0, 10), "no partition `16`", "from `0` to `10`"),
        (Range("arb", "eth"), CHAINS, "`eth` stands before `arb`", "write `eth:arb`"),
        (Range("eth", "sol"), CHAINS, "no partition `sol`", "the catalog has `eth`, `base`, `arb`"),
        (Explicit(("sol",)), CHAINS, "no partition `sol`", "the catalog has `eth`"),
        (Explicit(()), block_heights(), "selects no partition", "check its keys"),
        (Filter({"layer": "9"}), CHAINS, "selects no partition", "check its keys or tags"),
        (Filter({"year": "2024"}), hourly("2024-01-01T00"), "open-ended hourly", "select a range"),
        (Filter({"a": "b"}), block_heights(0, 9), "have no tags", "give a range or keys"),
        (Range("2024-01-01", "+9M"), daily("2024-01-01"), "to the year 9999 only", None),
    ],
)
def test_what_selects_nothing_is_refused_with_a_hint(
    selector: Selector, scheme: Scheme, problem: str, hint: str | None
) -> None:
    with pytest.raises(BadSelector, match=problem) as error:
        resolve(selector, scheme)
    assert (hint or "") in (error.value.hint or "")


def test_a_long_catalog_is_not_listed_whole() -> None:
    with pytest.raises(BadSelector) as error:
        resolve(Explicit(("no",)), static([f"k{n}" for n in range(9)]))
    assert error.value.hint == "the catalog has `k0`, `k1`, `k2`, `k3`, `k4`, …"


@pytest.mark.parametrize(
    ("text", "range_"),
    [
        ("5:8", Range("5", "8")),
        (" 18M : +1000 ", Range("18M", "+1000")),
        ("2024-01-01T00:2024-01-02T00", Range("2024-01-01T00", "2024-01-02T00")),
    ],
)
def test_a_range_is_read_as_people_write_it(text: str, range_: Range) -> None:
    assert Range.parse(text) == range_


@pytest.mark.parametrize("text", ["", "5", "5:", ":8", ":"])
def test_what_is_no_range_is_refused(text: str) -> None:
    with pytest.raises(BadSelector, match="is not a range"):
        Range.parse(text)


def test_explicit_keys_may_be_numbers() -> None:
    assert Explicit.of([7, "8"]) == Explicit(("7", "8"))


def test_what_is_not_selected_has_no_position() -> None:
    for selection in (
        resolve(Range("5", "8"), block_heights()),
        resolve(Explicit(("eth",)), CHAINS),
    ):
        with pytest.raises(BadSelector, match="`9` is not in this selection"):
            selection.position("9")


def test_positions_are_described_as_runs_and_not_without_end() -> None:
    selection = resolve(Range("100", "199"), block_heights())
    assert selection.describe(RangeSet.of((0, 0), (2, 5))) == ["100", "102 to 105"]
    many = RangeSet.from_members(range(0, 20, 2))
    assert selection.describe(many, limit=2) == ["100", "102", "and 8 more"]


def test_a_summary_of_many_keys_is_small() -> None:
    keys = [f"wallet-{n}" for n in range(100_000)]
    form = summary(Explicit.of(keys))
    assert form == {"kind": "explicit", "keys": keys[:3], "more": 99_997}
    awkward = summary(Explicit.of(["\x01" * 99] * 9))
    assert len(msgspec.json.encode(awkward)) < 450
    assert len(awkward["keys"]) + awkward["more"] == 9


def test_a_summary_of_a_range_or_filter_is_the_whole_of_it() -> None:
    assert summary(Range("1", "9")) == {"kind": "range", "start": "1", "end": "9"}
    assert summary(Filter({"a": "b"})) == {"kind": "filter", "tags": {"a": "b"}}
    with pytest.raises(BadSelector, match="text is too long"):
        summary(Filter({"a": "b" * 500}))


def test_a_range_of_static_keys_can_be_counted_too() -> None:
    scheme = static(["a", "b", "c"])
    assert resolve(Range("b", "+2"), scheme).keys == ("b", "c")
    for end in ("+0", "+3"):
        with pytest.raises(BadSelector):
            resolve(Range("b", end), scheme)


@pytest.mark.parametrize(
    "selector",
    [Range("a\0", "b"), Explicit.of(["\ud800"]), Filter({"tier": "\0"}), Filter({"\ud800": "x"})],
)
def test_texts_that_no_ledger_takes_are_refused(selector: Selector) -> None:
    for refuse in (summary, lambda it: resolve(it, static(["a", "b"]))):
        with pytest.raises(BadSelector, match="the selector's text"):
            refuse(selector)


def test_all_heights_are_as_cheap_as_a_few() -> None:
    every = all_heights()
    assert every.is_identity
    assert len(every) == HIGHEST + 1
    assert len(every.encode()) < 100
    for height in (0, 18_000_000, HIGHEST):
        assert every.position(height) == every.partition(height) == height
    assert list(every.slice(7, 9)) == [7, 8, 9]
    assert every.pick(RangeSet.of((5, 6))).all_keys() == ["5", "6"]


def test_only_a_selection_from_zero_on_without_gaps_is_an_identity() -> None:
    assert Selection("blocks", spans=((0, 9),)).is_identity
    assert not Selection("blocks", spans=((1, 9),)).is_identity
    assert not Selection("blocks", spans=((0, 3), (5, 9))).is_identity
    assert not Selection("static", keys=("0",)).is_identity
