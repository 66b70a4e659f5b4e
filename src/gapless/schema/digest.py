"""What a range of rows is, in one number that every sink computes alike.

A digest is a sum over blocks, mod 2^256, of the SHA-256 of each block's rows. So the digests of
ranges add up, in any order and however a range was cut; a block without rows adds nothing. Equal
digests mean equal rows, because the bytes that are hashed can be read back in one way only:

    name of the table, number of rows
    for each row      the columns that are never null: their lengths, if variable, and values
    of variable ones  the values of all rows
    for each nullable column that the block has any value of
                      its name, and 1 if no row lacks it, else 2 and a byte per row
                      the lengths, if variable, and the values of all rows; a null is zeros

Numbers are little-endian. The order of rows is part of it: they come in the order of their key.
A nullable column that a later version adds leaves old digests as they are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import pairwise

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
from numpy.typing import NDArray

from gapless.schema.tables import Column, Kind, Table

MODULUS = 1 << 256

_VARIABLE = (Kind.BYTES, Kind.JSON)

Bytes = NDArray[np.uint8]
Edges = NDArray[np.int64]


def digest(table: Table, rows: pa.Table) -> int:
    """The digest of rows of one chain, sorted by key, with all columns of the table."""
    if not rows.num_rows:
        return 0
    heights = one_array(rows["block_number"]).to_numpy()
    changes = np.flatnonzero(heights[1:] != heights[:-1]) + 1
    edges = np.concatenate([[0], changes, [rows.num_rows]])
    required = _Required.of([column for column in table if not column.nullable], rows, edges)
    nullable = [
        _Nullable.of(column, one_array(rows[column.name]), edges)
        for column in table
        if column.nullable and rows[column.name].null_count < rows.num_rows
    ]
    name = table.name.encode()
    total = 0
    for nth, (start, end) in enumerate(pairwise(edges.tolist())):
        parts: list[bytes | memoryview] = [b"%s %d\n" % (name, end - start)]
        parts += required.parts(nth, start, end)
        for column in nullable:
            parts += column.parts(nth, start, end)
        total += int.from_bytes(sha256(b"".join(parts)).digest(), "little")
    return total % MODULUS


def one_array(column: pa.ChunkedArray) -> pa.Array:
    """A column as one piece, copied only where it is in several."""
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


@dataclass(frozen=True)
class _Fixed:
    """Values of one length, end to end."""

    data: memoryview
    width: int

    def parts(self, nth: int, start: int, end: int) -> tuple[memoryview, ...]:
        return (self.data[start * self.width : end * self.width],)


@dataclass(frozen=True)
class _Variable:
    """Values of any length, end to end."""

    data: memoryview
    lengths: Bytes
    bounds: Sequence[int]  # where each block's values begin, and where the last one's end

    @classmethod
    def of(cls, array: pa.Array, edges: Edges) -> _Variable:
        if array.null_count:  # what lies under a null is anything
            array = array.fill_null(b"" if pa.types.is_binary(array.type) else "")
        _, buffer, data = array.buffers()
        offsets = np.frombuffer(buffer, "<i4", len(array) + 1, array.offset * 4)
        lengths = np.diff(offsets).view(np.uint8).reshape(-1, 4)
        return cls(memoryview(data or b""), lengths, offsets[edges].tolist())

    def parts(self, nth: int, start: int, end: int) -> tuple[memoryview, ...]:
        return self.lengths[start:end].data, self.values(nth)

    def values(self, nth: int) -> memoryview:
        return self.data[self.bounds[nth] : self.bounds[nth + 1]]


@dataclass(frozen=True)
class _Required:
    """The columns that are never null: those of a row side by side."""

    beside: _Fixed
    variable: Sequence[_Variable]

    @classmethod
    def of(cls, columns: Sequence[Column], rows: pa.Table, edges: Edges) -> _Required:
        arrays = {column: one_array(rows[column.name]) for column in columns}
        variable = [_Variable.of(arrays[it], edges) for it in columns if it.kind in _VARIABLE]
        fixed = [_values(arrays[it], it.kind) for it in columns if it.kind not in _VARIABLE]
        matrix = np.concatenate([*(it.lengths for it in variable), *fixed], axis=1)
        return cls(_Fixed(matrix.reshape(-1).data, matrix.shape[1]), variable)

    def parts(self, nth: int, start: int, end: int) -> Iterator[memoryview]:
        yield from self.beside.parts(nth, start, end)
        for column in self.variable:
            yield column.values(nth)


@dataclass(frozen=True)
class _Nullable:
    """A column that some rows may lack, and blocks without any value leave out."""

    name: bytes
    values: _Fixed | _Variable
    valid: memoryview | None  # a byte per row; None if no row lacks it
    counts: Sequence[int]  # how many values each block has

    @classmethod
    def of(cls, column: Column, array: pa.Array, edges: Edges) -> _Nullable:
        values: _Fixed | _Variable
        if column.kind in _VARIABLE:
            values = _Variable.of(array, edges)
        else:
            found = _values(array, column.kind)
            values = _Fixed(found.reshape(-1).data, found.shape[1])
        if not array.null_count:
            return cls(column.name.encode(), values, None, ())
        valid = array.is_valid().to_numpy(zero_copy_only=False).astype(np.uint8)
        counts = np.add.reduceat(valid, edges[:-1], dtype=np.int64).tolist()
        return cls(column.name.encode(), values, valid.data, counts)

    def parts(self, nth: int, start: int, end: int) -> Sequence[bytes | memoryview]:
        if self.valid is None or self.counts[nth] == end - start:
            return self.name, b"\1", *self.values.parts(nth, start, end)
        if not self.counts[nth]:
            return ()
        return self.name, b"\2", self.valid[start:end], *self.values.parts(nth, start, end)


def _values(array: pa.Array, kind: Kind) -> Bytes:
    """Values of fixed length, one a row; zeros where a row has none."""
    width = 1 if kind is Kind.BOOL else kind.width or 8
    if kind is Kind.BOOL:
        array = array.cast(pa.uint8())
    buffer = array.buffers()[1]
    found = np.frombuffer(buffer, np.uint8, len(array) * width, array.offset * width)
    values = found.reshape(-1, width)
    if array.null_count:  # what lies under a null is anything
        values = np.where(array.is_valid().to_numpy(zero_copy_only=False)[:, None], values, 0)
    return values
