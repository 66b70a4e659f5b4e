"""Decode hex text to numbers and bytes, a whole column at a time.

If each value were decoded separately, the calls would cost more than the decoding. So a column is
joined into one string and decoded by one `unhexlify`, and the resulting bytes are used directly as
the Arrow buffer. The same pass validates every value (`0x`, width, digits): either the result is
exact, or `BadValue` names the first malformed row. A joined text that is well formed is not enough,
because two malformed values could compensate each other; so each pass also proves where the values
begin and end.
"""

from __future__ import annotations

import re
from binascii import Error as NotHex
from binascii import unhexlify
from collections.abc import Sequence
from itertools import repeat
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]
Numbers = NDArray[np.uint64]
Doubles = NDArray[np.float64]
Lengths = NDArray[np.int64]

_ZERO, _X, _SPACE = b"0x "
_TO_ZERO = bytes.maketrans(b"x ", b"00")
_SMALL = {hex(number): number for number in range(1024)}
_SHORT = 5  # length of the longest of them
_U256 = "0x[0-9a-fA-F]{1,64}", "a quantity below 2^256"


class BadValue(ValueError):
    """A value that is invalid for its column: its row, and what was expected."""

    def __init__(self, row: int, value: object, expected: str) -> None:
        super().__init__(f"{_shown(value)} is not {expected}")
        self.row = row


def numbers(values: Sequence[str]) -> Numbers:
    """Decode quantities below 2^64."""
    if values and len(values[0]) <= _SHORT:
        try:
            return np.fromiter(map(_SMALL.__getitem__, values), np.uint64, len(values))
        except KeyError:
            pass  # not all values are small, or one is malformed
    try:
        if " " in "".join(values):
            raise NotHex  # it could not be distinguished from the alignment
        text = _aligned(values, 16)
        if len(text) == 16 * len(values):
            return _quantities(text, len(values), 16)
        return _quantities(_aligned(values, 18), len(values), 18)
    except ValueError:
        _blame(values, "0x[0-9a-fA-F]{1,16}", "a quantity below 2^64")


def u256s(values: Sequence[str]) -> tuple[Bytes, Doubles]:
    """Decode quantities below 2^256 to 32 bytes each, and to the nearest doubles.

    Nearly all values fit in 64 bits and are decoded as cheaply as small numbers. The others are
    found by the distances between the `x`s in the joined text, without a call per value.
    """
    count = len(values)
    try:
        text = "".join(values).encode("ascii")
        if _SPACE in text:
            raise NotHex  # otherwise a number after spaces would be truncated unnoticed
        low = _quantities(_aligned(values, 18, 18), count, 18)
        marks = np.flatnonzero(np.frombuffer(text, np.uint8) == _X)
        if len(marks) != count:
            raise NotHex  # a second `x`, in the part that was truncated
        large = np.flatnonzero(np.diff(marks, append=len(text) + 1) > 18).tolist()
        high = words([values[row] for row in large])
    except ValueError:
        _blame(values, *_U256)
    limbs = np.zeros((count, 4), ">u8")
    limbs[:, 3] = low
    data, nearest = limbs.view(np.uint8), low.astype(np.float64)
    if large:
        data[large] = high
        nearest[large] = [float(int(values[row], 16)) for row in large]
    return data, nearest


def words(values: Sequence[str]) -> Bytes:
    """Decode quantities below 2^256, most of which need nearly all of the 32 bytes."""
    try:
        return fixed([v if len(v) == 66 else _widened(v) for v in values], 32)
    except BadValue:
        _blame(values, *_U256)


def fixed(values: Sequence[str], width: int) -> Bytes:
    """Decode byte strings of one width, one per row.

    Each is joined with a space after it. A value that contains one is refused with its digits, so a
    space at the end of every row proves that the values end there.
    """
    stride = 2 * width + 3
    try:
        text = " ".join([*values, ""]).encode("ascii")
        if len(text) != stride * len(values):
            raise NotHex
        rows = np.frombuffer(text, np.uint8).reshape(len(values), stride)
        if not ((rows[:, 0] == _ZERO) & (rows[:, 1] == _X) & (rows[:, -1] == _SPACE)).all():
            raise NotHex
        data = unhexlify(rows[:, 2:-1].tobytes())
    except ValueError:
        _blame(values, f"0x[0-9a-fA-F]{{{2 * width}}}", f"{width} bytes in hex")
    return np.frombuffer(data, np.uint8).reshape(len(values), width)


def binaries(values: Sequence[str]) -> tuple[Lengths, bytes]:
    """Decode byte strings of any length; return the length of each, and all bytes joined."""
    lengths = np.fromiter(map(len, values), np.int64, len(values))
    try:
        digits = "".join(map(str.removeprefix, values, repeat("0x")))
        if len(digits) != lengths.sum() - 2 * len(values) or (lengths & 1).any():
            raise NotHex
        data = unhexlify(digits)
    except ValueError:
        _blame(values, "0x(?:[0-9a-fA-F]{2})*", "whole bytes in hex")
    return lengths // 2 - 1, data


def _aligned(values: Sequence[str], width: int, most: int | None = None) -> bytes:
    """Join the values into one text, each right-aligned in `width` characters.

    Values are truncated to `most` characters, if given. Otherwise the text is longer if a value is
    wider than `width`.
    """
    form = f"%{width}s" if most is None else f"%{width}.{most}s"
    return (form * len(values) % tuple(values)).encode("ascii")


def _quantities(text: bytes, count: int, width: int) -> Numbers:
    """Decode right-aligned quantities together.

    First check that each row consists of spaces, `0x` and at least one more character; the spaces
    are of the alignment, because no value has any. Then replace the spaces and the `0x` with
    leading zeros, which do not change the number.
    """
    characters = np.frombuffer(text, np.uint8)
    marks = np.flatnonzero(characters == _X)
    if len(text) != width * count or len(marks) != count:
        raise NotHex
    spaces = marks - np.arange(1, width * count + 1, width)
    if count and not (spaces.min() >= 0 and spaces.max() <= width - 3):
        raise NotHex
    if not (characters[marks - 1] == _ZERO).all():
        raise NotHex
    if np.count_nonzero(characters == _SPACE) != spaces.sum():
        raise NotHex
    digits = np.frombuffer(unhexlify(text.translate(_TO_ZERO)), np.uint8)
    low = np.ascontiguousarray(digits.reshape(count, width // 2)[:, -8:])
    return low.view(">u8").reshape(count).astype(np.uint64)


def _widened(value: str) -> str:
    return f"0x{value[2:]:0>64}" if value.startswith("0x") and len(value) > 2 else value


def _blame(values: Sequence[str], pattern: str, expected: str) -> NoReturn:
    well_formed = re.compile(pattern).fullmatch
    for row, value in enumerate(values):
        if not well_formed(value):
            raise BadValue(row, value, expected)
    raise AssertionError(f"rejected a column in which every value is {expected}")


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:70]}… ({len(text)} characters)"
