"""Addresses of EVM chains as people write them: `0x` and 40 hex digits, cased as in EIP-55.

The case of the letters is a checksum: a letter is upper case if the digit at the same place of the
hash of the lower-case text is 8 or more. A text in one case has no checksum, and is accepted.

    >>> format_address(bytes.fromhex("5aaeb6053f3e94c9b9a09f33669435e7ef1beaed"))
    '0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed'
    >>> parse_address("0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed").hex()
    '5aaeb6053f3e94c9b9a09f33669435e7ef1beaed'
"""

from __future__ import annotations

import re
from functools import lru_cache

from gapless.chains.evm.codec.keccak import keccak
from gapless.core.errors import UsageError

_DIGITS = 40
_DIGITS_OF_HASH = 64
_NOT_HEX = re.compile("[^0-9a-fA-F]")
_HINT = "an address is `0x` and 40 hex digits, for example {}"
_EXAMPLE = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"


@lru_cache(maxsize=1 << 16)
def format_address(address: bytes) -> str:
    """Return the text of an address of 20 bytes, with its checksum."""
    digits = address.hex()
    cased = (
        digit.upper() if int(check, 16) >= 8 else digit
        for digit, check in zip(digits, keccak(digits.encode()).hex(), strict=False)
    )
    return "0x" + "".join(cased)


def parse_address(text: str) -> bytes:
    """Return the 20 bytes of an address; raise `UsageError` with a hint if it is not one."""
    text = text.strip()
    has_prefix = text[:2].lower() == "0x"
    digits = text[2:] if has_prefix else text
    if stray := _NOT_HEX.search(digits):
        raise _not_hex(text, stray[0])
    if len(digits) == _DIGITS_OF_HASH:  # it may be a private key, so it is not repeated
        raise UsageError(
            f"`{text[:6]}…` is not an address: it has 64 hex digits, like a hash or a private key",
            hint="give the address of the account; never give its private key to any program",
        )
    if len(digits) != _DIGITS:
        finding = f"it has {len(digits)} hex digits, not {_DIGITS}"
        raise _refusal(text, finding)
    if not has_prefix:
        hint = f"did you mean `0x{digits}`?"
        raise _refusal(text, "it does not begin with `0x`", hint)
    return _checked(text, digits)


def _checked(text: str, digits: str) -> bytes:
    address = bytes.fromhex(digits)
    proper = format_address(address)
    if digits not in (digits.lower(), digits.upper(), proper[2:]):
        raise _refusal(
            text,
            "its upper and lower case do not match its digits, so a character may be mistyped",
            f"copy it again; if you are sure of every digit, write `{text.lower()}`",
        )
    return address


def _not_hex(text: str, stray: str) -> UsageError:
    if "." in text:
        hint = "look up the address behind the name, and give that: names can change hands"
        return _refusal(text, "it is a name", hint)
    return _refusal(text, f"`{stray}` is not a hex digit")


def _refusal(text: str, finding: str, hint: str | None = None) -> UsageError:
    return UsageError(f"`{text}` is not an address: {finding}", hint=hint or _HINT.format(_EXAMPLE))
