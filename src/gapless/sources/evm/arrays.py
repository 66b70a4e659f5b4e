"""Decoded columns to Arrow arrays: the buffers are handed over, and None becomes null.

An answer's column is full (nearly always), empty (another network's field), or mixed. Only the
mixed one pays for nulls: its values are decoded without the gaps and then spread over the rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, repeat
from operator import is_not
from typing import Any

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
from numpy.typing import NDArray

from gapless.schema.arrow import arrow_type
from gapless.schema.tables import Column, Kind
from gapless.sources.evm import columns
from gapless.sources.evm.columns import BadValue, Bytes, Lengths

Mask = NDArray[np.bool_]

_TOPICS = 4
_AS_THEY_ARE = (Kind.BOOL, Kind.JSON)
_MAX_BYTES = 2**31 - 1  # what the 32-bit offsets of Arrow's `binary` can tell apart


def arrays(column: Column, values: Sequence[Any]) -> list[pa.Array]:
    """What the answers held for a column, as the array (two, of a 256-bit number) to store."""
    if column.nullable and values.count(None) == len(values):
        return [pa.nulls(len(values), arrow_type(each.kind)) for each in column.stored]
    if column.kind in _AS_THEY_ARE:
        return [pa.array(values, arrow_type(column.kind))]
    return _decoded(column.kind, values) if all(values) else _with_nulls(column, values)


def number_array(values: NDArray[Any]) -> pa.Array:
    return _array(Kind.INT, values.astype(np.uint64, copy=False))


def topic_arrays(topics: Sequence[list[str]]) -> list[pa.Array]:
    """The four columns of the topics: all are decoded together, then dealt out by position."""
    counts = np.fromiter(map(len, topics), np.int64, len(topics))
    if counts.max(initial=0) > _TOPICS:
        row = int(counts.argmax())
        raise BadValue(row, topics[row], f"a list of at most {_TOPICS} topics")
    try:
        data = columns.fixed([*chain.from_iterable(topics)], 32)
    except BadValue as error:
        raise error.at(int(np.repeat(np.arange(len(topics)), counts)[error.row])) from None
    starts = np.cumsum(counts) - counts
    return [_topic(data, starts + place, counts > place) for place in range(_TOPICS)]


def _topic(data: Bytes, places: NDArray[np.int64], valid: Mask) -> pa.Array:
    if valid.all():
        return _array(Kind.HASH, data[places])
    return _array(Kind.HASH, data[places[valid]], valid)


def _with_nulls(column: Column, values: Sequence[str | None]) -> list[pa.Array]:
    valid = np.fromiter(map(is_not, values, repeat(None)), np.bool_, len(values))
    if not column.nullable and not valid.all():
        raise BadValue(int(valid.argmin()), None, column.kind.meaning)
    try:
        return _decoded(column.kind, [v for v in values if v is not None], valid)
    except BadValue as error:
        raise error.at(int(np.flatnonzero(valid)[error.row])) from None


def _decoded(kind: Kind, values: Sequence[str], valid: Mask | None = None) -> list[pa.Array]:
    """The values as arrays; `valid` says which rows they are of, where not of all."""
    if kind is Kind.INT:
        return [_array(kind, columns.numbers(values), valid)]
    if kind is Kind.U256:
        exact, nearest = columns.u256s(values)
        return [_array(kind, exact, valid), _array(Kind.FLOAT, nearest, valid)]
    if kind is Kind.WORD:
        return [_array(kind, columns.words(values), valid)]
    if kind.width is not None:
        return [_array(kind, columns.fixed(values, kind.width), valid)]
    return [_binary_array(*columns.binaries(values), valid)]


def _spread(found: NDArray[Any], valid: Mask | None) -> NDArray[Any]:
    if valid is None:
        return found
    rows = np.zeros((len(valid), *found.shape[1:]), found.dtype)
    rows[valid] = found
    return rows


def _array(kind: Kind, found: NDArray[Any], valid: Mask | None = None) -> pa.Array:
    rows = _spread(found, valid)
    buffers = [_bits(valid), pa.py_buffer(rows)]
    return pa.Array.from_buffers(arrow_type(kind), len(rows), buffers)


def _binary_array(found: Lengths, data: bytes, valid: Mask | None) -> pa.Array:
    if len(data) > _MAX_BYTES:
        raise OverflowError("more than 2 GiB in one column: decode fewer blocks at once")
    lengths = _spread(found, valid)
    offsets = np.zeros(len(lengths) + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:])
    buffers = [_bits(valid), pa.py_buffer(offsets), pa.py_buffer(data)]
    return pa.Array.from_buffers(arrow_type(Kind.BYTES), len(lengths), buffers)


def _bits(valid: Mask | None) -> pa.Buffer | None:
    return None if valid is None else pa.py_buffer(np.packbits(valid, bitorder="little"))
