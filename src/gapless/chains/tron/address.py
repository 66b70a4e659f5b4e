"""TRON addresses: 20 bytes in tables, base58check text for people.

The text encodes the version byte 0x41 and the 20 bytes, followed by the first four bytes of their
double SHA-256. On the wire an address has 21 bytes, with the version byte in front; in logs it has
20. A text with a valid checksum but another version byte is not a TRON address. People may also
write the 21 bytes in hex, as nodes do; the same without the version byte is refused, because it
could be an address of another chain.

    >>> base58_of(bytes.fromhex("a614f803b6fd780986a42c78ec9c7f77e6ded13c"))
    'TR7NHqjeKQxGTCi8q8ZY4pL8otSzgjLj6t'
    >>> address_of("TR7NHqjeKQxGTCi8q8ZY4pL8otSzgjLj6t").hex()
    'a614f803b6fd780986a42c78ec9c7f77e6ded13c'
"""

from __future__ import annotations

import re
from functools import lru_cache
from hashlib import sha256

from gapless.core.errors import UsageError

VERSION = b"\x41"
LENGTH = 20  # bytes, without the version
_ALPHABET = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
_VALUES = {digit: value for value, digit in enumerate(_ALPHABET)}
_CHECKSUM = 4  # bytes
_TEXT_LENGTH = 34  # digits; the version byte makes every address this long
_HINT = "a TRON address begins with T and has 34 characters, for example {}"
_EXAMPLE = "TR7NHqjeKQxGTCi8q8ZY4pL8otSzgjLj6t"
_HEX = re.compile("(?:0x)?(41)?([0-9a-fA-F]{40})")


@lru_cache(maxsize=1 << 16)
def base58_of(address: bytes) -> str:
    """Return the text of an address of 20 bytes."""
    if len(address) != LENGTH:
        raise ValueError(f"an address has {LENGTH} bytes, not {len(address)}")
    versioned = VERSION + address
    number = int.from_bytes(versioned + _checksum(versioned), "big")
    digits = []
    while number:
        number, digit = divmod(number, 58)
        digits.append(_ALPHABET[digit])
    return "".join(reversed(digits))


def address_of(text: str) -> bytes:
    """Return the 20 bytes of an address in base58check; raise `UsageError` if it is not one."""
    number = 0
    for digit in text:
        if digit not in _VALUES:
            raise _refusal(text, f"base58 has no character `{digit}`")
        number = number * 58 + _VALUES[digit]
    if len(text) != _TEXT_LENGTH:
        raise _refusal(text, f"it has {len(text)} characters")
    whole = number.to_bytes(LENGTH + len(VERSION) + _CHECKSUM + 1, "big")[1:]
    versioned, checksum = whole[:-_CHECKSUM], whole[-_CHECKSUM:]
    if _checksum(versioned) != checksum:
        raise _refusal(text, "its checksum is wrong, so a character is mistyped")
    if not versioned.startswith(VERSION):
        raise _refusal(text, f"its version byte is 0x{versioned[0]:02x}, not 0x41")
    return versioned[len(VERSION) :]


def parse_address(text: str) -> bytes:
    """Return the 20 bytes of an address in base58check, or in hex with its version byte."""
    text = text.strip()
    found = _HEX.fullmatch(text)
    if found is None:
        return address_of(text)
    address = bytes.fromhex(found[2])
    if found[1] is None:
        raise UsageError(
            f"`{text}` is not a TRON address: in hex, one begins with 41",
            hint=f"if you mean the account with these bytes, write `{base58_of(address)}`",
        )
    return address


def without_version(address: bytes) -> bytes | None:
    """Return the 20 bytes of an address of 21, as messages have it; None if it is not one."""
    is_address = len(address) == LENGTH + len(VERSION) and address.startswith(VERSION)
    return address[len(VERSION) :] if is_address else None


def _checksum(versioned: bytes) -> bytes:
    return sha256(sha256(versioned).digest()).digest()[:_CHECKSUM]


def _refusal(text: str, finding: str) -> UsageError:
    return UsageError(f"`{text}` is not a TRON address: {finding}", hint=_HINT.format(_EXAMPLE))
