"""EVM addresses as people write them, and what is said about those that are not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapless.chains.evm.wallet_address import format_address, parse_address
from gapless.core.errors import UsageError

# The examples of EIP-55.
PROPER = (
    "0x52908400098527886E0F7030069857D2E4169EE7",
    "0x8617E340B3D01FA5F11F306F4090FD50E238070D",
    "0xde709f2102306220921060314715629080e2fb77",
    "0x27b1fdb04752bbc536007a920d24acb045561c26",
    "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed",
    "0xfB6916095ca1df60bB79Ce92cE3Ea74c37c5d359",
    "0xdbF03B407c01E7cD3CBea99509d93f8DDDC8C6FB",
    "0xD1220A0cf47c7B9Be7A2E6BA89F429762e7b9aDb",
)
MIXED = PROPER[4]
KEY = "4c0883a69102937d6231471b5dbb6204fe5129617082792ae468d01a3f362318"


@pytest.mark.parametrize("text", PROPER)
def test_the_examples_of_the_standard(text: str) -> None:
    assert format_address(parse_address(text)) == text


@given(st.binary(min_size=20, max_size=20))
def test_every_way_of_writing_an_address_is_read(address: bytes) -> None:
    text = format_address(address)
    for each in (text, text.lower(), "0x" + text[2:].upper(), f" {text}\n", "0X" + text[2:]):
        assert parse_address(each) == address


@given(st.binary(min_size=20, max_size=20), st.integers(2, 41))
def test_a_letter_in_the_wrong_case_is_noticed(address: bytes, place: int) -> None:
    text = format_address(address)
    changed = text[:place] + text[place].swapcase() + text[place + 1 :]
    digits = changed[2:]
    if changed != text and digits not in (digits.lower(), digits.upper()):
        with pytest.raises(UsageError, match="a character may be mistyped") as refused:
            parse_address(changed)
        assert changed.lower() in (refused.value.hint or "")


@pytest.mark.parametrize(
    ("text", "finding", "hint"),
    [
        ("", "it has 0 hex digits, not 40", "an address is `0x` and 40 hex digits"),
        (MIXED[:-1], "it has 39 hex digits, not 40", "40 hex digits"),
        (MIXED + "0", "it has 41 hex digits, not 40", "40 hex digits"),
        (MIXED[2:], "it does not begin with `0x`", f"did you mean `{MIXED}`"),
        (MIXED[:-1] + "g", "`g` is not a hex digit", "40 hex digits"),
        ("vitalik.eth", "it is a name", "look up the address"),
        ("TR7NHqjeKQxGTCi8q8ZY4pL8otSzgjLj6t", "is not a hex digit", "40 hex digits"),
    ],
)
def test_what_is_not_an_address_is_explained(text: str, finding: str, hint: str) -> None:
    with pytest.raises(UsageError, match=finding) as refused:
        parse_address(text)
    assert hint in (refused.value.hint or "")


@pytest.mark.parametrize("text", [KEY, "0x" + KEY])
def test_what_may_be_a_private_key_is_not_repeated(text: str) -> None:
    with pytest.raises(UsageError, match="64 hex digits, like a hash or a private key") as refused:
        parse_address(text)
    assert KEY[6:] not in str(refused.value)
    assert KEY[6:] not in (refused.value.hint or "")
