"""Encode Arrow tables in PostgreSQL's binary COPY format, column by column.

A row is the number of its fields, then the length and the bytes of each field; a null has length -1
and no bytes. Consecutive fields of fixed length have the same layout in every row, so they are
encoded as one matrix. Arrow then joins these matrices and the variable columns between them, row by
row. No value becomes a Python object.

A 256-bit number is `numeric`: digits in base 10,000. All rows of a column get as many digits as the
largest value needs. PostgreSQL accepts leading zeros and drops them.

Where the compiled core is installed, it encodes the rows without Python's lock.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from gapless.schema import Column, Kind, Table
from gapless.schema.arrow import one_array
from gapless.schema.native import installed

HEADER = b"PGCOPY\n\xff\r\n\0" + bytes(8)
END = b"\xff\xff"
ROWS_AT_ONCE = 8192
_BASE = 10_000
_LIMBS = 8  # of 32 bits
_VARIABLE = (Kind.BYTES, Kind.TEXT, Kind.JSON)
_JOINED = pc.JoinOptions(null_handling="replace", null_replacement="")
# Created once: converting a Python value makes Arrow look for pandas, which is slow.
_NOTHING, _NULL = pa.scalar(b"", pa.binary()), pa.scalar(-1, pa.int32())

Bytes = NDArray[np.uint8]


def columns_with_values(table: Table, rows: pa.Table) -> list[Column]:
    """Return the columns that are not null in every row: about half, for most blocks."""
    return [it for it in table.columns if rows[it.name].null_count < rows.num_rows]


def copy_stream(columns: Sequence[Column], rows: pa.Table) -> Iterator[bytes]:
    """Yield the COPY stream of these columns in pieces."""
    yield HEADER
    for start in range(0, rows.num_rows, ROWS_AT_ONCE):
        yield _piece(columns, rows.slice(start, ROWS_AT_ONCE))
    yield END


def _piece(columns: Sequence[Column], rows: pa.Table) -> bytes:
    core = installed().module
    if core is None:
        return reference_piece(columns, rows)
    numeric = [column.kind is Kind.U256 for column in columns]
    batches = rows.select([column.name for column in columns]).combine_chunks().to_batches()
    return b"".join(core.copy_rows(batch, numeric) for batch in batches)


def reference_piece(columns: Sequence[Column], rows: pa.Table) -> bytes:
    """Encode rows without the compiled core."""
    count = rows.num_rows
    fixed_fields = [_constant(len(columns), 2)]
    parts: list[pa.Array] = []
    for column in columns:
        array = one_array(rows[column.name])
        if column.kind in _VARIABLE:
            lengths, values = _variable(array)
        elif array.null_count:
            lengths, values = _with_nulls(column.kind, array)
        else:
            fixed = _values(column.kind, array)
            fixed_fields += [_constant(fixed.shape[1], 4), fixed]
            continue
        parts += [_fixed_block([*fixed_fields, _big_endian(lengths, ">i4")], count), values]
        fixed_fields = []
    if fixed_fields:
        parts.append(_fixed_block(fixed_fields, count))
    joined = pc.call_function("binary_join_element_wise", [*parts, _NOTHING], _JOINED)
    _, offsets, data = joined.buffers()
    end = int(np.frombuffer(offsets, np.int32, count + 1)[-1])
    return memoryview(data)[:end].tobytes()


def _fixed_block(fields: Sequence[Bytes], count: int) -> pa.Array:
    """Concatenate fields row by row; a field is a matrix, or one row that all rows share."""
    matrix = np.empty((count, sum(field.shape[-1] for field in fields)), np.uint8)
    start = 0
    for field in fields:
        end = start + field.shape[-1]
        matrix[:, start:end] = field
        start = end
    return _binary(np.full(count, start), matrix)


def _variable(array: pa.Array) -> tuple[NDArray[Any], pa.Array]:
    binary = array.cast(pa.binary())
    lengths = pc.binary_length(binary).fill_null(_NULL).to_numpy(zero_copy_only=False)
    return lengths, binary


def _with_nulls(kind: Kind, array: pa.Array) -> tuple[NDArray[Any], pa.Array]:
    valid = array.is_valid().to_numpy(zero_copy_only=False)
    values = _values(kind, array.drop_null())
    width = values.shape[1]
    return np.where(valid, width, -1), _binary(valid * width, values)


def _binary(lengths: NDArray[np.int64], data: Bytes) -> pa.Array:
    offsets = np.zeros(len(lengths) + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:])
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.binary(), len(lengths), buffers)


def _constant(value: int, width: int) -> Bytes:
    return np.frombuffer(value.to_bytes(width, "big"), np.uint8)


def _values(kind: Kind, array: pa.Array) -> Bytes:
    """Return the encoded values of a fixed-length column without nulls."""
    if kind is Kind.BOOL:
        array = array.cast(pa.uint8())
    width = 1 if kind is Kind.BOOL else kind.width or 8
    raw = np.frombuffer(array.buffers()[1], np.uint8, len(array) * width, array.offset * width)
    if kind is Kind.INT:
        return _big_endian(raw.view("<u8"), ">u8")
    values = raw.reshape(-1, width)
    return numerics(values) if kind is Kind.U256 else values


def numerics(values: Bytes) -> Bytes:
    """Encode 32-byte numbers as `numeric`, each with as many digits as the largest needs."""
    limbs = np.ascontiguousarray(values).view(">u4").astype(np.uint64)
    used = np.flatnonzero(limbs.any(axis=0))
    limbs = limbs[:, used[0] if len(used) else _LIMBS - 1 :]
    # Two digits per step: when dividing by base squared, remainder and limb fit in 64 bits.
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
