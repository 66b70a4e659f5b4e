"""Addresses as text, both ways."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapless.chains.tron.address import address_of, base58_of, without_version
from gapless.core.errors import UsageError

USDT = "TR7NHqjeKQxGTCi8q8ZY4pL8otSzgjLj6t"


@given(st.binary(min_size=20, max_size=20))
def test_text_and_bytes_are_the_same_address(address: bytes) -> None:
    text = base58_of(address)
    assert (len(text), text[0]) == (34, "T")
    assert address_of(text) == address


@given(
    st.integers(0, 33),
    st.sampled_from("123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"),
)
def test_a_mistyped_character_is_noticed(place: int, digit: str) -> None:
    mistyped = USDT[:place] + digit + USDT[place + 1 :]
    if mistyped != USDT:
        with pytest.raises(UsageError):
            address_of(mistyped)


@pytest.mark.parametrize(
    ("text", "finding"),
    [
        ("", "it has 0 characters"),
        (USDT[:-1], "it has 33 characters"),
        (USDT + "1", "it has 35 characters"),
        (USDT[:-1] + "0", "base58 has no character `0`"),
        (USDT[:-1] + "u", "its checksum is wrong"),
        ("z" * 34, "its checksum is wrong"),
        ("0x" + "ab" * 16, "base58 has no character `0`"),
        ("TronEnergyioE1Z3ukeRv38sYkv5Jn55bL", "version byte is 0x42, not 0x41"),
    ],
)
def test_what_is_not_an_address_is_refused_with_a_hint(text: str, finding: str) -> None:
    with pytest.raises(UsageError, match=finding) as refused:
        address_of(text)
    assert "begins with T and has 34 characters" in (refused.value.hint or "")


def test_only_20_bytes_are_an_address() -> None:
    with pytest.raises(ValueError, match="20 bytes, not 21"):
        base58_of(b"\x41" + bytes(20))


def test_messages_have_addresses_with_a_version() -> None:
    assert without_version(b"\x41" + b"\x01" * 20) == b"\x01" * 20
    assert without_version(b"\xa0" + b"\x01" * 20) is None
    assert without_version(b"\x41" + b"\x01" * 19) is None
    assert without_version(b"") is None
