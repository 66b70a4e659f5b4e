"""What contracts answer to calls: words and texts. Pure.

A contract may answer anything, so an answer is hostile: it is never trusted for its length, its
offsets or its encoding, and a text loses what a terminal or a web page could misinterpret. What
cannot be read is None, never an error.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

from gapless.chains.movements import TokenFacts

WORD = 32
_OF_ADDRESS = 20
_LONGEST = 1024  # bytes of a text that are looked at
_MOST_DECIMALS = 255
_LONGEST_SYMBOL, _LONGEST_NAME = 32, 64  # characters
_INVISIBLE = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})


def word_of(value: int | bytes) -> bytes:
    """Encode a number or an address as an argument of a call."""
    return value.to_bytes(WORD, "big") if isinstance(value, int) else value.rjust(WORD, b"\0")


def read_number(answer: bytes | None) -> int | None:
    """Read one number; an answer of another length is none."""
    return None if answer is None or len(answer) != WORD else int.from_bytes(answer, "big")


def read_flag(answer: bytes | None) -> bool:
    """Whether the answer is true; no answer is not."""
    return read_number(answer) == 1


def read_address(answer: bytes | None) -> bytes | None:
    number = read_number(answer)
    return None if number is None or number >> (8 * _OF_ADDRESS) else word_of(number)[-_OF_ADDRESS:]


def read_decimals(answer: bytes | None) -> int | None:
    found = read_number(answer)
    return found if found is not None and found <= _MOST_DECIMALS else None


def read_facts(answers: Sequence[bytes | None], family: str) -> TokenFacts | None:
    """Read what a token answers; None if it answers nothing.

    The answers are to `symbol()`, `name()`, `decimals()`, and whether it supports the interfaces of
    ERC-721 and ERC-1155. A family has names of its own for these standards, such as TRC-721.
    """
    if not any(answers):
        return None
    symbol, name, decimals, is_721, is_1155 = answers
    digits = read_decimals(decimals)
    number = 1155 if read_flag(is_1155) else 721 if read_flag(is_721) else 20
    return TokenFacts(
        standard="unknown" if number == 20 and digits is None else f"{family}-{number}",
        symbol=read_text(symbol, _LONGEST_SYMBOL),
        name=read_text(name, _LONGEST_NAME),
        decimals=digits,
    )


def clean_facts(symbol: bytes, name: bytes, decimals: int, standard: str) -> TokenFacts:
    """Return what a token that is not a contract says about itself."""
    return TokenFacts(
        standard=standard,
        symbol=_clean(symbol, _LONGEST_SYMBOL),
        name=_clean(name, _LONGEST_NAME),
        decimals=decimals,
    )


def read_text(answer: bytes | None, longest: int) -> str | None:
    """Read a string, or the 32 bytes that old tokens return instead; None if it shows nothing."""
    if answer is None:
        return None
    found = answer.rstrip(b"\0") if len(answer) == WORD else _string(answer)
    return None if found is None else _clean(found, longest)


def _clean(data: bytes, longest: int) -> str | None:
    """Return a text without what is invisible, on one line; None if nothing is left."""
    text = data[:_LONGEST].decode("utf-8", errors="replace")
    spaced = (" " if each.isspace() else each for each in text)
    shown = "".join(each for each in spaced if unicodedata.category(each) not in _INVISIBLE)
    return " ".join(shown.split())[:longest].strip() or None


def _string(answer: bytes) -> bytes | None:
    """Return the bytes of an encoded string: its offset, its length, its content."""
    start = int.from_bytes(answer[:WORD], "big")
    if len(answer) < 2 * WORD or start > len(answer) - WORD:
        return None
    length = int.from_bytes(answer[start : start + WORD], "big")
    content = answer[start + WORD :]
    return content[:length] if length <= len(content) else None
