"""Decoding a column gives the same values as decoding each value, or names the first bad one."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapless.chains.evm.decode import columns
from gapless.chains.evm.decode.columns import BadValue

NUMBER = re.compile("0x[0-9a-fA-F]{1,16}")
U256 = re.compile("0x[0-9a-fA-F]{1,64}")
BYTES = re.compile("0x(?:[0-9a-fA-F]{2})*")


def quantities(bits: int) -> st.SearchStrategy[str]:
    """Numbers of all sizes as nodes write them, including capitals and leading zeros."""
    sizes = st.integers(0, bits).flatmap(lambda size: st.integers(0, 2**size - 1))
    plain = sizes.map(hex)
    return (
        plain
        | plain.map(lambda text: f"0x{text[2:].upper()}")
        | sizes.map(f"0x{{:0{bits // 4}x}}".format)
    )


def hexed(data: bytes) -> str:
    return f"0x{data.hex()}"


# Near misses of a quantity: what surrounds a number in other notations.
near = st.text("0x19aFgX-+_.\u0660", max_size=8)


@given(st.lists(quantities(64)))
def test_numbers(values: list[str]) -> None:
    found = columns.numbers(values)
    assert found.dtype == np.uint64
    assert found.tolist() == [int(value, 16) for value in values]


@given(st.lists(quantities(256)))
def test_256_bit_numbers_and_their_nearest_doubles(values: list[str]) -> None:
    exact, nearest = columns.u256s(values)
    expected = [int(value, 16) for value in values]
    assert [int.from_bytes(row) for row in exact] == expected
    assert exact.shape == (len(values), 32)
    assert nearest.tolist() == [float(number) for number in expected]


@given(st.lists(quantities(256)))
def test_words(values: list[str]) -> None:
    assert [int.from_bytes(row) for row in columns.words(values)] == [int(v, 16) for v in values]


@given(
    st.sampled_from([1, 8, 20, 32]).flatmap(lambda n: st.lists(st.binary(min_size=n, max_size=n)))
)
def test_bytes_of_one_width(data: list[bytes]) -> None:
    width = len(data[0]) if data else 32
    found = columns.fixed(list(map(hexed, data)), width)
    assert found.shape == (len(data), width)
    assert [bytes(row) for row in found] == data


@given(st.lists(st.binary(max_size=40)))
def test_bytes_of_any_length(data: list[bytes]) -> None:
    lengths, joined = columns.binaries(list(map(hexed, data)))
    assert lengths.tolist() == list(map(len, data))
    assert joined == b"".join(data)


@given(st.lists(quantities(64) | near))
def test_a_number_is_either_right_or_refused(values: list[str]) -> None:
    bad = [row for row, value in enumerate(values) if not NUMBER.fullmatch(value)]
    if bad:
        with pytest.raises(BadValue) as caught:
            columns.numbers(values)
        assert caught.value.row == bad[0]
    else:
        assert columns.numbers(values).tolist() == [int(value, 16) for value in values]


@given(
    st.lists(quantities(256)), near | quantities(256).map(lambda it: f"{it}{'0' * 64}"), st.data()
)
@pytest.mark.parametrize("decode", [columns.u256s, columns.words])
def test_one_bad_quantity_is_named(
    decode: Callable[[list[str]], object], values: list[str], bad: str, data: st.DataObject
) -> None:
    at = data.draw(st.integers(0, len(values)))
    values.insert(at, bad)
    if U256.fullmatch(bad):
        decode(values)
        return
    with pytest.raises(BadValue, match="2\\^") as caught:
        decode(values)
    assert caught.value.row == at


@given(st.lists(quantities(256)), st.integers(1, 20), st.lists(quantities(256)))
def test_a_wide_number_after_spaces_is_not_cut(
    before: list[str], spaces: int, behind: list[str]
) -> None:
    spaced = f"{' ' * spaces}0x1234567890abcdef99"
    with pytest.raises(BadValue) as caught:
        columns.u256s([*before, spaced, *behind])
    assert caught.value.row == len(before)


@given(st.lists(st.binary(min_size=4, max_size=4)), near, st.data())
def test_one_bad_value_among_bytes_is_named(
    good: list[bytes], bad: str, data: st.DataObject
) -> None:
    at = data.draw(st.integers(0, len(good)))
    values = list(map(hexed, good))
    values.insert(at, bad)
    with pytest.raises(BadValue, match="is not 4 bytes in hex") as caught:
        columns.fixed(values, 4)
    assert caught.value.row == at
    if BYTES.fullmatch(bad):
        columns.binaries(values)
        return
    with pytest.raises(BadValue, match="is not whole bytes in hex") as caught:
        columns.binaries(values)
    assert caught.value.row == at


@pytest.mark.parametrize(
    "bad",
    [
        "",
        "0x",
        "x1",
        " 0x1",
        "1",
        "0X1",
        "-0x1",
        "0x-1",
        "0x1 ",
        "1 0x1",
        "0x1_0",
        "00x1",
        "0x0x1",
        "0xg",
    ],
)
def test_near_misses_of_a_number_are_refused(bad: str) -> None:
    with pytest.raises(BadValue, match="is not a quantity below 2\\^64"):
        columns.numbers(["0x5208", bad, "0x1"])


@given(st.lists(st.binary(min_size=32, max_size=32), min_size=2, max_size=5), st.data())
def test_values_cannot_compensate_each_other(data: list[bytes], draw: st.DataObject) -> None:
    """The joined text is well formed, but one value has lost digits to the next."""
    values = list(map(hexed, data))
    at = draw.draw(st.integers(0, len(values) - 2))
    cut = draw.draw(st.integers(0, 65))
    one, other = values[at : at + 2]
    values[at : at + 2] = [one[:cut], one[cut:] + other]
    for decode in (lambda it: columns.fixed(it, 32), columns.words, columns.u256s):
        with pytest.raises(BadValue):
            decode(values)
    with pytest.raises(BadValue):
        columns.numbers(["0x12345678901234"[: cut % 16], "0x12345678901234"[cut % 16 :] + "0x1"])


@pytest.mark.parametrize("decode", [columns.u256s, columns.words])
def test_a_second_x_after_64_bits_is_refused(decode: Callable[[list[str]], object]) -> None:
    for values in (["0x11111111111111111x2"], ["0x1", "0x11111111111111111x1111111111111111111"]):
        with pytest.raises(BadValue):
            decode(values)


def test_a_number_has_at_most_64_bits() -> None:
    assert columns.numbers(["0xffffffffffffffff", "0x0"]).tolist() == [2**64 - 1, 0]
    with pytest.raises(BadValue):
        columns.numbers(["0x10000000000000000"])


def test_a_long_value_is_shown_abbreviated() -> None:
    with pytest.raises(BadValue) as caught:
        columns.fixed(["0x" + "ab" * 5000], 32)
    assert len(str(caught.value)) < 150
    assert "10004 characters" in str(caught.value)
