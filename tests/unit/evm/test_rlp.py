"""RLP is canonical: every item has exactly one encoding, and the reverse."""

from __future__ import annotations

import doctest

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapless.chains.evm.codec import hexrlp, rlp
from gapless.chains.evm.codec.rlp import Item, concatenated, encode, integer, string
from tests.unit.evm import reference

LOREM = b"Lorem ipsum dolor sit amet, consectetur adipisicing elit"

lengths = st.one_of(st.integers(0, 70), st.sampled_from([255, 256, 2047, 2048, 65_535, 65_536]))
strings = st.one_of(st.binary(max_size=70), lengths.map(bytes))
items = st.recursive(strings, lambda inner: st.lists(inner, max_size=5), max_leaves=12)
numbers = st.one_of(st.integers(0, 300), st.integers(0, 2**256 - 1))


@pytest.mark.parametrize(
    ("item", "encoded"),
    [
        (b"", "80"),
        (b"\x00", "00"),
        (b"\x7f", "7f"),
        (b"\x80", "8180"),
        (b"dog", "83646f67"),
        (LOREM, "b838" + LOREM.hex()),
        ([], "c0"),
        ([b"cat", b"dog"], "c88363617483646f67"),
        ([[], [[]], [[], [[]]]], "c7c0c1c0c3c0c1c0"),
        ([integer(0), integer(15), integer(1024)], "c5800f820400"),
    ],
)
def test_known_examples(item: Item, encoded: str) -> None:
    assert encode(item).hex() == encoded


def test_the_docstrings_example_is_right() -> None:
    assert doctest.testmod(rlp) == (0, 1)


@given(items)
def test_encodings_equal_the_reference_and_can_be_decoded(item: Item) -> None:
    encoded = encode(item)
    assert encoded == reference.rlp(item)
    assert reference.unrlp(encoded) == item


@given(st.lists(items, max_size=5))
def test_encoded_members_form_the_list(members: list[Item]) -> None:
    assert concatenated(map(encode, members)) == encode(members)


@given(numbers)
def test_a_number_has_no_leading_zero(number: int) -> None:
    assert int.from_bytes(integer(number), "big") == number
    assert not integer(number).startswith(b"\0")


@given(numbers, st.integers(0, 3))
def test_hex_numbers_encode_equally_with_or_without_padding(number: int, zeros: int) -> None:
    written = f"0x{'0' * zeros}{number:x}"
    assert hexrlp.number(written) == string(integer(number)).hex()


@given(strings)
def test_hex_data_encodes_like_its_bytes(data: bytes) -> None:
    assert hexrlp.data(f"0x{data.hex()}") == string(data).hex()


@given(st.lists(st.binary(min_size=32, max_size=32), max_size=70))
def test_hex_words_encode_like_a_list_of_them(words: list[bytes]) -> None:
    assert hexrlp.words([f"0x{word.hex()}" for word in words]) == encode(words).hex()


def test_hex_fields_of_fixed_width_have_that_width() -> None:
    assert hexrlp.address("0x" + "ab" * 20) == string(b"\xab" * 20).hex()
    assert hexrlp.bloom("0x" + "cd" * 256) == string(b"\xcd" * 256).hex()
    for encoder, size in ((hexrlp.word, 32), (hexrlp.address, 20), (hexrlp.bloom, 256)):
        for wrong in (size - 1, size + 1):
            with pytest.raises(ValueError, match=f"not {size} bytes"):
                encoder("0x" + "00" * wrong)


@pytest.mark.parametrize("field", ["0x1", "0x123", "0xzz"])
def test_only_bytes_can_be_encoded(field: str) -> None:
    with pytest.raises(ValueError, match=r"odd number|[Nn]on-hexadecimal"):
        hexrlp.packed(hexrlp.data(field))
