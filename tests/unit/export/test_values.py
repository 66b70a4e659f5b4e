"""Converting a column gives the same result as converting each value."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from gapless.schema.values import decimal_texts, gathered, grouped, hex_texts, looked_up

_NUMBERS = st.one_of(st.none(), st.integers(0, 2**64), st.integers(0, 2**256 - 1))


@given(st.lists(st.one_of(st.none(), st.binary(max_size=80))), st.integers(0, 3))
def test_bytes_as_hex(values: list[bytes | None], skipped: int) -> None:
    array = pa.array(values, pa.binary()).slice(skipped)
    expected = [None if it is None else f"0x{it.hex()}" for it in values[skipped:]]
    assert hex_texts(array).to_pylist() == expected


@given(st.lists(st.one_of(st.none(), st.binary(min_size=20, max_size=20))), st.integers(0, 3))
def test_bytes_of_one_length_as_hex(values: list[bytes | None], skipped: int) -> None:
    array = pa.array(values, pa.binary(20)).slice(skipped)
    expected = [None if it is None else f"0x{it.hex()}" for it in values[skipped:]]
    assert hex_texts(array).to_pylist() == expected


@given(st.lists(_NUMBERS), st.integers(0, 3))
def test_numbers_as_digits(values: list[int | None], skipped: int) -> None:
    stored = [None if it is None else it.to_bytes(32, "big") for it in values]
    array = pa.array(stored, pa.binary(32)).slice(skipped)
    expected = [None if it is None else str(it) for it in values[skipped:]]
    assert decimal_texts(array).to_pylist() == expected


@given(st.lists(st.tuples(*[st.one_of(st.none(), st.sampled_from("abc"))] * 3)))
def test_values_of_a_row_as_a_list(rows: list[tuple[str | None, ...]]) -> None:
    columns = [pa.array([row[at] for row in rows], pa.string()) for at in range(3)]
    assert gathered(columns).to_pylist() == [[it for it in row if it] for row in rows]


@given(st.lists(st.integers(3, 8)), st.integers(3, 8), st.integers(0, 5))
def test_values_of_a_height_as_a_list(heights: list[int], first: int, size: int) -> None:
    heights.sort()
    keys = [*range(first, first + size)]
    values = [f"{at}" for at in range(len(heights))]
    found = grouped(
        pa.array(keys, pa.uint64()), pa.array(heights, pa.uint64()), pa.array(values, pa.string())
    )
    assert found.to_pylist() == [
        [value for value, height in zip(values, heights, strict=True) if height == key]
        for key in keys
    ]


def test_the_value_of_a_key() -> None:
    found = looked_up(pa.array([3, 1, 3, 9]), pa.array([1, 3]), pa.array(["one", "three"]))
    assert found.to_pylist() == ["three", "one", "three", None]
