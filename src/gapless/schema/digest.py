"""What a range of rows is, in one number that every sink computes alike.

A digest is a sum over blocks, mod 2^256, of the SHA-256 of each block's rows. So the digests of
ranges add up, in any order and however a range was cut; a block without rows adds nothing. Equal
digests mean equal rows, because the bytes that are hashed can be read back in one way only:

    table name, number of rows
    for each row      a bit per nullable column, set where it is null
                      a 4-byte length per column of variable length
                      the values of fixed length; a null one is zeros
    for each column of variable length, the values of all rows

Numbers are little-endian. The order of rows is part of it: they come in the order of their key.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
from numpy.typing import NDArray

from gapless.schema.tables import Kind, Table

MODULUS = 1 << 256

_ROWS_AT_ONCE = 1024  # of some hundred bytes each: as many as a processor's cache can hold
_VARIABLE = (Kind.BYTES, Kind.JSON)

Bytes = NDArray[np.uint8]
Offsets = NDArray[np.int64]


def digest(table: Table, rows: pa.Table) -> int:
    """The digest of rows of one chain, sorted by key, with all columns of the table."""
    if not rows.num_rows:
        return 0
    arrays = {column.name: one_array(rows[column.name]) for column in table}
    heights = arrays["block_number"].to_numpy()
    ends = np.append(np.flatnonzero(heights[1:] != heights[:-1]) + 1, rows.num_rows)
    variable = [_Variable.of(arrays[it.name]) for it in table if it.kind in _VARIABLE]
    fixed = [
        _null_bits([arrays[column.name] for column in table if column.nullable]),
        *(_lengths(column) for column in variable),
        *(_values(arrays[it.name], it.kind) for it in table if it.kind not in _VARIABLE),
    ]
    filled = [column for column in variable if column.data]
    return sum(_block_hashes(table.name.encode(), ends, fixed, filled)) % MODULUS


def one_array(column: pa.ChunkedArray) -> pa.Array:
    """A column as one piece, copied only where it is in several."""
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _block_hashes(
    name: bytes, ends: Offsets, fixed: Sequence[Bytes], variable: Sequence[_Variable]
) -> Iterator[int]:
    width, start = sum(part.shape[1] for part in fixed), 0
    for last in _pieces(ends):
        matrix = _beside(fixed, start, last[-1]).reshape(-1).data
        at = start
        for end in last:
            hashed = sha256(b"%s %d\n" % (name, end - at))
            hashed.update(matrix[(at - start) * width : (end - start) * width])
            for column in variable:
                hashed.update(column.data[column.offsets[at] : column.offsets[end]])
            yield int.from_bytes(hashed.digest(), "little")
            at = end
        start = at


def _pieces(ends: Offsets) -> Iterator[list[int]]:
    """The ends of blocks that are looked at together; a block is never divided."""
    at = done = 0
    while at < len(ends):
        behind = max(int(np.searchsorted(ends, done + _ROWS_AT_ONCE, "right")), at + 1)
        yield ends[at:behind].tolist()
        at, done = behind, int(ends[behind - 1])


def _beside(parts: Sequence[Bytes], start: int, end: int) -> Bytes:
    """Some rows of all parts, side by side."""
    return np.concatenate([part[start:end] for part in parts], axis=1)


@dataclass(frozen=True)
class _Variable:
    """A column of variable length, in one buffer."""

    data: memoryview
    offsets: NDArray[np.int32]

    @classmethod
    def of(cls, array: pa.Array) -> _Variable:
        if array.null_count == len(array):
            return cls(memoryview(b""), np.zeros(len(array) + 1, np.int32))
        if array.null_count:  # what lies under a null is anything
            array = array.fill_null(b"" if pa.types.is_binary(array.type) else "")
        _, offsets, data = array.buffers()
        found = np.frombuffer(offsets, np.int32, len(array) + 1, array.offset * 4)
        return cls(memoryview(data or b""), found)


def _lengths(column: _Variable) -> Bytes:
    return np.diff(column.offsets).astype("<i4").view(np.uint8).reshape(-1, 4)


def _null_bits(arrays: Sequence[pa.Array]) -> Bytes:
    nulls = np.zeros((len(arrays[0]), len(arrays)), np.bool_)
    for place, array in enumerate(arrays):
        if array.null_count:
            nulls[:, place] = array.is_null().to_numpy(zero_copy_only=False)
    return np.packbits(nulls, axis=1, bitorder="little")


def _values(array: pa.Array, kind: Kind) -> Bytes:
    width = 1 if kind is Kind.BOOL else kind.width or 8
    if array.null_count == len(array):
        return np.broadcast_to(np.zeros(width, np.uint8), (len(array), width))
    if kind is Kind.BOOL:
        array = array.cast(pa.uint8())
    buffer = array.buffers()[1]
    found = np.frombuffer(buffer, np.uint8, len(array) * width, array.offset * width)
    values = found.reshape(-1, width)
    if array.null_count:  # what lies under a null is anything
        values = np.where(array.is_valid().to_numpy(zero_copy_only=False)[:, None], values, 0)
    return values
