"""RLP assembled as hexadecimal text, from the hexadecimal text that nodes answer with.

A JSON-RPC object is hex already, and so is its RLP but for the heads. Joining text and converting
each object to bytes once is about twice as fast as converting every field. The functions take a
field as the node wrote it (`0x…`) and give RLP as bare hex; `packed` turns the finished text into
bytes and is where a digit that is none is noticed.

Widths are checked here, so that no two answers share an encoding: a field that is a byte too long
cannot be made up for by a neighbour that is a byte too short.
"""

from __future__ import annotations

from binascii import unhexlify
from collections.abc import Sequence

EMPTY = "80"
EMPTY_LIST = "c0"

_STRING, _LIST = 0x80, 0xC0
_KEPT = 2048  # heads of this many sizes are kept ready

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
    """A quantity, in whatever number of digits the node wrote it."""
    digits = field[2:].lstrip("0")
    size = len(digits)
    if size & 1:
        digits = "0" + digits
        size += 1
    if size == 2 and digits < "80":
        return digits
    return string_head(size >> 1) + digits


def data(field: str) -> str:
    """Bytes of any length."""
    size = len(field)
    if size & 1:
        raise ValueError(f"`{field[:20]}…` has an odd number of digits")
    size = (size >> 1) - 1
    if size == 1 and field[2] < "8":
        return field[2:]
    return string_head(size) + field[2:]


def word(field: str) -> str:
    """A hash or another 32-byte word."""
    if len(field) != 66:
        raise ValueError(f"`{field[:70]}` is not 32 bytes")
    return "a0" + field[2:]


def address(field: str) -> str:
    if len(field) != 42:
        raise ValueError(f"`{field[:70]}` is not 20 bytes")
    return "94" + field[2:]


def bloom(field: str) -> str:
    if len(field) != 514:
        raise ValueError("a bloom is not 256 bytes")
    return "b90100" + field[2:]


def words(fields: Sequence[str]) -> str:
    """A list of 32-byte words."""
    return listed("".join(map(word, fields)))
