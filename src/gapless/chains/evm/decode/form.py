"""The forms that a text in an answer can have, one value at a time.

`columns.py` checks the same patterns for whole columns; `docs/reference/answers.md` explains them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from gapless.chains.evm.decode.columns import BadValue

_DECIMAL = re.compile("[0-9]{1,78}").fullmatch


@dataclass(frozen=True)
class ValueForm:
    """A pattern, what it stands for, and the highest number if it is a quantity."""

    pattern: re.Pattern[str]
    expected: str
    most: int | None = None

    def check(self, value: str) -> None:
        """Raise `BadValue` unless the value has this form."""
        if not self.pattern.fullmatch(value) or (
            self.most is not None and quantity(value) > self.most
        ):
            raise BadValue(0, value, self.expected)

    def normal(self, value: str) -> str:
        """Return the usual notation of a value that has this form."""
        return value.lower() if self.most is None else hex(quantity(value))


def quantity(value: str) -> int:
    """Return a number that has the form of one, in hex or decimal."""
    return int(value) if _DECIMAL(value) else int(value, 16)


def _bytes(width: int) -> ValueForm:
    return ValueForm(re.compile(f"0x[0-9a-fA-F]{{{2 * width}}}"), f"{width} bytes in hex")


def _number(bits: int, pattern: str) -> ValueForm:
    return ValueForm(re.compile(pattern), f"a quantity below 2^{bits}", 2**bits - 1)


U64 = _number(64, "0x[0-9a-fA-F]{1,16}")
U256 = _number(256, "0x[0-9a-fA-F]{1,64}")
KIND = _number(8, "0x[0-9a-fA-F]{1,16}")  # the type of an envelope
L1_U64 = _number(64, "0x[0-9a-fA-F]{1,16}|[0-9]{1,78}")  # Optimism wrote decimal numbers
L1_U256 = _number(256, "0x[0-9a-fA-F]{1,64}|[0-9]{1,78}")
NONCE = _bytes(8)
ADDRESS = _bytes(20)
HASH = _bytes(32)
BLOOM = _bytes(256)
DATA = ValueForm(re.compile("0x(?:[0-9a-fA-F]{2})*"), "whole bytes in hex")
TEXT = ValueForm(re.compile(r"[ !#-\[\]-~]{0,100}"), "a short text without quotes")
