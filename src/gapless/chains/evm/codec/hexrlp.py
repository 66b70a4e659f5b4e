"""RLP assembled as hexadecimal text, from the hexadecimal text in a node's answers.

The fields of a JSON-RPC object are already hex, and RLP only adds prefixes to them. Joining text
and converting each object to bytes once is about twice as fast as converting every field. The
functions take a field as the node wrote it (`0x…`) and return RLP as hex without the `0x`. `packed`
converts the complete text to bytes, and raises an error if a character is not a hex digit.

Widths are checked here, so that different answers never have the same encoding: a field that is a
byte too long cannot be compensated by a neighbour that is a byte too short.
"""

from __future__ import annotations

from binascii import unhexlify
from collections.abc import Sequence

EMPTY = "80"
EMPTY_LIST = "c0"

_STRING, _LIST = 0x80, 0xC0
_KEPT = 2048  # number of sizes whose prefixes are precomputed

packed = unhexlify


def head(kind: int, size: int) -> str:
    """Return the RLP prefix of `size` bytes of a string or a list."""
    if size < 56:
        return f"{kind + size:02x}"
    width = (size.bit_length() + 7) >> 3
    return f"{kind + 55 + width:02x}{size:0{2 * width}x}"


_STRING_HEADS = tuple(head(_STRING, size) for size in range(_KEPT))
_LIST_HEADS = tuple(head(_LIST, size) for size in range(_KEPT))


def string_head(size: int) -> str:
    return _STRING_HEADS[size] if size < _KEPT else head(_STRING, size)


def list_head(size: int) -> str:
    return _LIST_HEADS[size] if size < _KEPT else head(_LIST, size)


def listed(text: str) -> str:
    """Encode a list whose concatenated encoded members are `text`."""
    return list_head(len(text) >> 1) + text


def number(field: str) -> str:
    """Encode a quantity, with or without leading zeros."""
    digits = field[2:].lstrip("0")
    size = len(digits)
    if size & 1:
        digits = "0" + digits
        size += 1
    if size == 2 and digits < "80":
        return digits
    return string_head(size >> 1) + digits


def data(field: str) -> str:
    """Encode bytes of any length."""
    size = len(field)
    if size & 1:
        raise ValueError(f"`{field[:20]}…` has an odd number of digits")
    size = (size >> 1) - 1
    if size == 1 and field[2] < "8":
        return field[2:]
    return string_head(size) + field[2:]


def word(field: str) -> str:
    """Encode a hash or another 32-byte word."""
    if len(field) != 66:
        raise ValueError(f"`{field[:70]}` is not 32 bytes")
    return "a0" + field[2:]


def address(field: str) -> str:
    if len(field) != 42:
        raise ValueError(f"`{field[:70]}` is not 20 bytes")
    return "94" + field[2:]


def bloom(field: str) -> str:
    if len(field) != 514 or not field.startswith("0x"):
        raise ValueError("a bloom is not 256 bytes")
    return "b90100" + field[2:]


def words(fields: Sequence[str]) -> str:
    """Encode a list of 32-byte words."""
    return listed("".join(map(word, fields)))
