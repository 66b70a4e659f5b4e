"""The digest of a range of rows: one number that is the same for every sink.

A digest is a sum over blocks, mod 2^256, of the SHA-256 of each block's rows. So the digests of
ranges can be added, in any order and for any split of a range; a block without rows adds nothing.
Equal digests mean equal rows, because the encoding that is hashed is unambiguous:

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
import pyarrow as pa
from numpy.typing import NDArray

from gapless.schema.arrow import one_array
from gapless.schema.native import installed
from gapless.schema.table import Column, Kind, Table

MODULUS = 1 << 256

_VARIABLE = (Kind.BYTES, Kind.TEXT, Kind.JSON)
# Created once: converting a Python value makes Arrow look for pandas, which is slow.
_EMPTY = {pa.binary(): pa.scalar(b"", pa.binary()), pa.string(): pa.scalar("", pa.string())}

Bytes = NDArray[np.uint8]


def digest(table: Table, rows: pa.Table) -> int:
    """Returns the digest of rows of one chain, sorted by key, with all columns of the table."""
    if not rows.num_rows:
        return 0
    core = installed().module
    batches = None if core is None else _whole_blocks(rows)
    if core is None or batches is None:
        return reference_digest(table, rows)
    columns = [(column.name, column.nullable) for column in table]
    found = (core.digest(table.name, columns, batch) for batch in batches)
    return sum(int.from_bytes(it, "little") for it in found) % MODULUS


def _whole_blocks(rows: pa.Table) -> list[pa.RecordBatch] | None:
    """Returns the rows in batches that have all rows of their blocks, if Arrow can form them."""
    found: list[pa.RecordBatch] = rows.to_batches()
    if _split_a_block(found):
        found = rows.combine_chunks().to_batches()  # several if a column is too long for one
    return None if _split_a_block(found) else found


def _split_a_block(batches: Sequence[pa.RecordBatch]) -> bool:
    heights = [batch.column("block_number") for batch in batches]
    return any(one[-1] == other[0] for one, other in pairwise(heights))


def reference_digest(table: Table, rows: pa.Table) -> int:
    """Returns the same digest, without the compiled core."""
    blocks = _Blocks.of(rows)
    name = table.name.encode()
    parts = [
        [b"%s %d\n" % (name, end - start) for start, end in blocks.places],
        *_required([column for column in table if not column.nullable], rows, blocks),
        *(
            _nullable(column, one_array(rows[column.name]), blocks)
            for column in table
            if column.nullable and rows[column.name].null_count < rows.num_rows
        ),
    ]
    hashes = (sha256(b"".join(block)).digest() for block in zip(*parts, strict=True))
    return sum(int.from_bytes(it, "little") for it in hashes) % MODULUS


@dataclass(frozen=True)
class _Blocks:
    """Where the rows of each block begin and end."""

    edges: NDArray[np.int64]
    places: Sequence[tuple[int, int]]

    @classmethod
    def of(cls, rows: pa.Table) -> _Blocks:
        heights = one_array(rows["block_number"]).to_numpy()
        changes = np.flatnonzero(heights[1:] != heights[:-1]) + 1
        edges = np.concatenate([[0], changes, [len(heights)]])
        return cls(edges, [*pairwise(edges.tolist())])

    def cut(self, values: Bytes) -> list[bytes]:
        """Values of fixed length, by block."""
        data, width = values.tobytes(), values.shape[1]
        return [data[start * width : end * width] for start, end in self.places]


def _required(columns: Sequence[Column], rows: pa.Table, blocks: _Blocks) -> Iterator[list[bytes]]:
    """Yields the columns that are never null, row by row, for each block."""
    arrays = {column: one_array(rows[column.name]) for column in columns}
    variable = [_Variable.of(arrays[it], blocks) for it in columns if it.kind in _VARIABLE]
    fixed = [_values(arrays[it], it.kind) for it in columns if it.kind not in _VARIABLE]
    yield blocks.cut(np.concatenate([*(it.lengths for it in variable), *fixed], axis=1))
    for column in variable:
        yield column.values


def _nullable(column: Column, array: pa.Array, blocks: _Blocks) -> list[bytes]:
    """Encodes a nullable column for each block; empty for blocks without any value."""
    if column.kind in _VARIABLE:
        found = _Variable.of(array, blocks)
        lengths = blocks.cut(found.lengths)
        values = [each + data for each, data in zip(lengths, found.values, strict=True)]
    else:
        values = blocks.cut(_values(array, column.kind))
    full, some = column.name.encode() + b"\1", column.name.encode() + b"\2"
    if not array.null_count:
        return [full + data for data in values]
    valid = blocks.cut(_valid(array).view(np.uint8)[:, None])
    return [
        b"" if 1 not in mask else some + mask + data if 0 in mask else full + data
        for mask, data in zip(valid, values, strict=True)
    ]


@dataclass(frozen=True)
class _Variable:
    """A column of variable length: the lengths by row, the values by block."""

    lengths: Bytes
    values: list[bytes]

    @classmethod
    def of(cls, array: pa.Array, blocks: _Blocks) -> _Variable:
        if array.null_count:  # the bytes of a null are arbitrary
            array = array.fill_null(_EMPTY[array.type])
        _, buffer, data = array.buffers()
        offsets = np.frombuffer(buffer, "<i4", len(array) + 1, array.offset * 4)
        whole = memoryview(data or b"")
        bounds = pairwise(offsets[blocks.edges].tolist())
        lengths = np.diff(offsets).view(np.uint8).reshape(-1, 4)
        return cls(lengths, [bytes(whole[start:end]) for start, end in bounds])


def _values(array: pa.Array, kind: Kind) -> Bytes:
    """Returns fixed-length values, one per row, with zeros for nulls."""
    width = 1 if kind is Kind.BOOL else kind.width or 8
    if kind is Kind.BOOL:
        array = array.cast(pa.uint8())
    buffer = array.buffers()[1]
    found = np.frombuffer(buffer, np.uint8, len(array) * width, array.offset * width)
    values = found.reshape(-1, width)
    if array.null_count:  # the bytes of a null are arbitrary
        values = np.where(_valid(array)[:, None], values, 0)
    return values


def _valid(array: pa.Array) -> NDArray[np.bool_]:
    found: NDArray[np.bool_] = array.is_valid().to_numpy(zero_copy_only=False)
    return found
