"""Rows as PostgreSQL's binary COPY takes them, made from Arrow column by column.

A row is the number of its fields, then for each field its length and its bytes; the length of a
null is -1. Between two columns of variable length, all rows look alike but for their nulls: such a
stretch is one matrix, from which the bytes of absent values are cut out. Arrow then joins
stretches and variable columns, row by row. No value ever becomes a Python object.

A 256-bit number is `numeric`: digits to the base of 10,000, as many for all rows of a column as
its largest needs. PostgreSQL takes leading zeros, and drops them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from gapless.schema import Column, Kind, Table
from gapless.schema.digest import one_array

HEADER = b"PGCOPY\n\xff\r\n\0" + bytes(8)
END = b"\xff\xff"
ROWS_AT_ONCE = 8192
_BASE = 10_000
_LIMBS = 8  # of 32 bits
_VARIABLE = (Kind.BYTES, Kind.JSON)
_JOINED = pc.JoinOptions(null_handling="replace", null_replacement="")

Bytes = NDArray[np.uint8]
Mask = NDArray[np.bool_]


def filled(table: Table, rows: pa.Table) -> list[Column]:
    """The columns that any row has a value of: half of them, for most blocks."""
    return [it for it in table.columns if rows[it.name].null_count < rows.num_rows]


def copied(columns: Sequence[Column], rows: pa.Table) -> Iterator[bytes]:
    """The rows of these columns as one COPY, in pieces."""
    yield HEADER
    for start in range(0, rows.num_rows, ROWS_AT_ONCE):
        yield _piece(columns, rows.slice(start, ROWS_AT_ONCE))
    yield END


@dataclass(frozen=True)
class _Field:
    """Bytes of every row side by side: the same in all, or each row's own, if it has them."""

    width: int
    values: Bytes
    there: Mask | None = None  # None: in all rows

    @classmethod
    def same(cls, data: bytes) -> _Field:
        return cls(len(data), np.frombuffer(data, np.uint8))


def _piece(columns: Sequence[Column], rows: pa.Table) -> bytes:
    count = rows.num_rows
    stretch = [_Field.same(len(columns).to_bytes(2, "big"))]
    parts: list[pa.Array] = []
    for column in columns:
        array = one_array(rows[column.name])
        if column.kind in _VARIABLE:
            binary = array.cast(pa.binary())
            lengths = pc.binary_length(binary).fill_null(-1).to_numpy(zero_copy_only=False)
            stretch.append(_Field(4, _big_endian(lengths, ">i4")))
            parts += [_stretch(stretch, count), binary]
            stretch = []
        else:
            stretch += _fixed(column.kind, array)
    if stretch:
        parts.append(_stretch(stretch, count))
    joined = pc.call_function("binary_join_element_wise", [*parts, b""], _JOINED)
    _, offsets, data = joined.buffers()
    end = int(np.frombuffer(offsets, np.int32, count + 1)[-1])
    return memoryview(data)[:end].tobytes()


def _stretch(fields: Sequence[_Field], count: int) -> pa.Array:
    """The fields of each row side by side, without the bytes of absent values."""
    widths = np.array([field.width for field in fields])
    ends = np.cumsum(widths)
    matrix = np.empty((count, int(ends[-1])), np.uint8)
    for field, end in zip(fields, ends.tolist(), strict=True):
        matrix[:, end - field.width : end] = field.values
    offsets = np.arange(0, matrix.size + 1, matrix.shape[1], dtype=np.int32)
    if all(field.there is None for field in fields):
        return _binary(offsets, matrix.reshape(-1))
    kept = np.ones(matrix.shape, np.bool_)
    for field, end in zip(fields, ends.tolist(), strict=True):
        if field.there is not None:
            kept[:, end - field.width : end] = field.there[:, None]
            offsets[1:] -= np.cumsum(~field.there, dtype=np.int32) * np.int32(field.width)
    return _binary(offsets, matrix[kept])


def _binary(offsets: NDArray[np.int32], data: Bytes) -> pa.Array:
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.binary(), len(offsets) - 1, buffers)


def _fixed(kind: Kind, array: pa.Array) -> list[_Field]:
    """A column of fixed length: the length field, and the values."""
    values = _values(kind, array)
    width = values.shape[1]
    if not array.null_count:
        return [_Field.same(width.to_bytes(4, "big")), _Field(width, values)]
    there = array.is_valid().to_numpy(zero_copy_only=False)
    lengths = np.where(there, width, -1)
    return [_Field(4, _big_endian(lengths, ">i4")), _Field(width, values, there)]


def _values(kind: Kind, array: pa.Array) -> Bytes:
    """The values, whatever lies under a null included."""
    if kind is Kind.BOOL:
        array = array.cast(pa.uint8())
        width = 1
    else:
        width = kind.width or 8
    data = array.buffers()[1]
    raw = np.frombuffer(data, np.uint8, len(array) * width, array.offset * width)
    if kind is Kind.INT:
        return _big_endian(raw.view("<u8"), ">u8")
    if kind is Kind.U256:
        found = raw.reshape(-1, width)
        if array.null_count:  # what lies under a null would decide how many digits there are
            found = np.where(array.is_valid().to_numpy(zero_copy_only=False)[:, None], found, 0)
        return numerics(found)
    return raw.reshape(-1, width)


def numerics(values: Bytes) -> Bytes:
    """Numbers of 32 bytes as `numeric`, each with as many digits as the largest needs."""
    limbs = np.ascontiguousarray(values).view(">u4").astype(np.uint64)
    used = np.flatnonzero(limbs.any(axis=0))
    limbs = limbs[:, used[0] if len(used) else _LIMBS - 1 :]
    # Two digits at a time: dividing by their square, a remainder and a limb fit 64 bits.
    pairs = (limbs.shape[1] * 32 * 301 // 1000 + 8) // 8
    digits = np.empty((len(values), 2 * pairs), np.uint16)
    for pair in reversed(range(pairs)):
        rest = np.zeros(len(values), np.uint64)
        for limb in range(limbs.shape[1]):
            dividend = (rest << np.uint64(32)) | limbs[:, limb]
            limbs[:, limb], rest = np.divmod(dividend, np.uint64(_BASE**2))
        digits[:, 2 * pair], digits[:, 2 * pair + 1] = np.divmod(rest, np.uint64(_BASE))
    used = np.flatnonzero(digits.any(axis=0))
    digits = digits[:, used[0] if len(used) else -1 :]
    count = digits.shape[1]
    whole = np.empty((len(values), 4 + count), ">i2")
    whole[:, :4] = (count, count - 1, 0, 0)  # digits, weight of the first, sign, scale
    whole[:, 4:] = digits
    return whole.view(np.uint8)


def _big_endian(values: NDArray[np.generic], type_: str) -> Bytes:
    found = np.ascontiguousarray(values.astype(type_))
    return found.view(np.uint8).reshape(len(found), -1)
