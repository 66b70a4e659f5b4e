"""RLP, the canonical encoding below every hash of an EVM chain.

Only the encoder: Gapless recomputes what a node claims and never needs to read RLP. An encoding
is canonical, so a number has no leading zero and one byte below 0x80 stands for itself; two
values encode alike only if they are equal.

    >>> encode([b"cat", [integer(0), integer(1024)]]).hex()
    'c983636174c480820400'
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

Item: TypeAlias = "bytes | Sequence[Item]"

EMPTY_STRING = b"\x80"
EMPTY_LIST = b"\xc0"

_STRING, _LIST = 0x80, 0xC0
_LONG = 56  # from here on the length needs bytes of its own
_KEPT = 2048  # heads of this many sizes are kept ready


def encode(item: Item) -> bytes:
    """The RLP of a byte string, or of a sequence of items."""
    if isinstance(item, bytes):
        return string(item)
    return concatenated([encode(part) for part in item])


def string(data: bytes) -> bytes:
    """The RLP of one byte string."""
    size = len(data)
    return data if size == 1 and data < b"\x80" else string_head(size) + data


def concatenated(parts: Iterable[bytes]) -> bytes:
    """The RLP of a list whose members are encoded already."""
    payload = b"".join(parts)
    return list_head(len(payload)) + payload


def integer(number: int) -> bytes:
    """The bytes of a number, as RLP wants them: big-endian and without leading zeros."""
    return number.to_bytes((number.bit_length() + 7) >> 3, "big")


def string_head(size: int) -> bytes:
    return _STRING_HEADS[size] if size < _KEPT else _head(_STRING, size)


def list_head(size: int) -> bytes:
    return _LIST_HEADS[size] if size < _KEPT else _head(_LIST, size)


def _head(kind: int, size: int) -> bytes:
    """Return the RLP prefix of `size` bytes of a string or a list."""
    if size < _LONG:
        return bytes((kind + size,))
    width = (size.bit_length() + 7) >> 3
    return bytes((kind + _LONG - 1 + width,)) + size.to_bytes(width, "big")


_STRING_HEADS = tuple(_head(_STRING, size) for size in range(_KEPT))
_LIST_HEADS = tuple(_head(_LIST, size) for size in range(_KEPT))
