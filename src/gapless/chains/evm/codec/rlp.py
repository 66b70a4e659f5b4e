"""RLP, the canonical encoding that EVM chains hash.

This is only the encoder: Gapless recomputes what a node claims and never decodes RLP. The encoding
is canonical: a number has no leading zeros, a single byte below 0x80 encodes itself, and two values
have the same encoding only if they are equal.

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
_LONG = 56  # from this size on, the prefix contains the size in separate bytes
_KEPT = 2048  # number of sizes whose prefixes are precomputed


def encode(item: Item) -> bytes:
    """Encode a byte string or a sequence of items."""
    if isinstance(item, bytes):
        return string(item)
    return concatenated([encode(part) for part in item])


def string(data: bytes) -> bytes:
    """Encode a byte string."""
    size = len(data)
    return data if size == 1 and data < b"\x80" else string_head(size) + data


def concatenated(parts: Iterable[bytes]) -> bytes:
    """Encode a list whose members are already encoded."""
    payload = b"".join(parts)
    return list_head(len(payload)) + payload


def integer(number: int) -> bytes:
    """Return the bytes of a number as RLP requires them: big-endian, without leading zeros."""
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
