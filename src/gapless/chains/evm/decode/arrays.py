"""Convert fields of answers to Arrow arrays, all columns of a kind in one pass; None becomes null.

A pass takes about twenty numpy calls, however few values it decodes, which adds up with fifty
columns. So the columns of a kind are concatenated, decoded together, and split again. Nearly every
column is full; some are empty (fields of other networks) or mixed. Only mixed columns have extra
costs: their values are decoded without the nulls and then distributed over the rows.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, compress, repeat
from operator import is_not
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from gapless.chains.evm.decode import columns
from gapless.chains.evm.decode.columns import BadValue
from gapless.schema.arrow import arrow_type
from gapless.schema.table import F64, Column, Kind

Fields = Mapping[str, Sequence[Any]]
Mask = NDArray[np.bool_]

_TOPICS = 4
_NULLS = {kind: pa.nulls(0, arrow_type(kind)) for kind in Kind}
_MAX_BYTES = 2**31 - 1  # the largest 32-bit offset of Arrow's `binary` type


class BadField(ValueError):
    """A field that is invalid for its column, and its row."""

    def __init__(self, column: str, row: int, why: BadValue) -> None:
        super().__init__(str(why))
        self.column = column
        self.row = row


@dataclass(frozen=True)
class Cut:
    """The slice of a pass that belongs to a column; `valid` marks the rows that have a value."""

    column: Column
    start: int
    stop: int
    valid: Mask | None

    def row(self, at: int) -> int:
        """Return the row of the value at a position in the pass."""
        inside = at - self.start
        return inside if self.valid is None else int(np.flatnonzero(self.valid)[inside])


def arrays(wanted: Iterable[Column], fields: Fields) -> dict[str, pa.Array]:
    """Return the stored columns by name; a 256-bit number has two."""
    found: dict[str, pa.Array] = {}
    kinds: dict[Kind, list[Column]] = {}
    for column in wanted:
        values = fields[column.name]
        if column.nullable and not any(values) and values.count(None) == len(values):
            found[column.name] = _nulls(column.kind, len(values))
            if column.kind is Kind.U256:
                found[column.name + F64] = _nulls(Kind.FLOAT, len(values))
        elif column.kind in (Kind.BOOL, Kind.JSON):
            found[column.name] = pa.array(values, arrow_type(column.kind))
        else:
            kinds.setdefault(column.kind, []).append(column)
    for kind, group in kinds.items():
        found |= _pass(kind, group, fields)
    return found


def number_array(values: NDArray[Any]) -> pa.Array:
    return _array(Kind.INT, values.astype(np.uint64, copy=False))


def topic_arrays(topics: Sequence[list[str]]) -> list[pa.Array]:
    """Decode the topics in one pass, and return a column for each of the four positions."""
    counts = np.fromiter(map(len, topics), np.int64, len(topics))
    if counts.max(initial=0) > _TOPICS:
        row = int(counts.argmax())
        raise BadField("topics", row, BadValue(row, topics[row], f"at most {_TOPICS} topics"))
    try:
        data = columns.fixed([*chain.from_iterable(topics)], 32)
    except BadValue as error:
        row = int(np.repeat(np.arange(len(topics)), counts)[error.row])
        raise BadField("topics", row, error) from error
    found, starts = _array(Kind.HASH, data), np.cumsum(counts) - counts
    return [found.take(pa.array(starts + place, mask=counts <= place)) for place in range(_TOPICS)]


def _pass(kind: Kind, group: Sequence[Column], fields: Fields) -> dict[str, pa.Array]:
    values: list[str] = []
    cuts = [_append(values, column, fields[column.name]) for column in group]
    try:
        if kind is Kind.BYTES:
            return _binary_arrays(cuts, *columns.binaries(values))
        if kind is Kind.U256:
            exact, nearest = columns.u256s(values)
            return _cut(kind, cuts, exact) | _cut(Kind.FLOAT, cuts, nearest, F64)
        return _cut(kind, cuts, _decoded(kind, values))
    except BadValue as error:
        cut = cuts[bisect_right([cut.start for cut in cuts], error.row) - 1]
        raise BadField(cut.column.name, cut.row(error.row), error) from error


def _append(values: list[str], column: Column, fields: Sequence[Any]) -> Cut:
    """Append a column's fields to the values of a pass.

    A column that is not nullable has no None: its field is required, so an answer without it did
    not parse.
    """
    start = len(values)
    if not column.nullable or all(fields):
        values += fields
        return Cut(column, start, len(values), None)
    valid = np.fromiter(map(is_not, fields, repeat(None)), np.bool_, len(fields))
    values += compress(fields, valid)
    return Cut(column, start, len(values), valid)


def _decoded(kind: Kind, values: Sequence[str]) -> NDArray[Any]:
    if kind is Kind.INT:
        return columns.numbers(values)
    if kind is Kind.WORD:
        return columns.words(values)
    assert kind.width is not None
    return columns.fixed(values, kind.width)


def _cut(
    kind: Kind, cuts: Sequence[Cut], data: NDArray[Any], suffix: str = ""
) -> dict[str, pa.Array]:
    whole = _array(kind, data)
    return {
        cut.column.name + suffix: whole[cut.start : cut.stop]
        if cut.valid is None
        else _array(kind, _spread(data[cut.start : cut.stop], cut.valid), cut.valid)
        for cut in cuts
    }


def _binary_arrays(
    cuts: Sequence[Cut], lengths: NDArray[np.int64], data: bytes
) -> dict[str, pa.Array]:
    found = {}
    for cut in cuts:
        start = lengths[: cut.start].sum()
        own = _spread(lengths[cut.start : cut.stop], cut.valid)
        if own.sum() > _MAX_BYTES:
            raise OverflowError("more than 2 GiB in one column: decode fewer blocks at once")
        offsets = np.zeros(len(own) + 1, np.int32)
        np.cumsum(own, out=offsets[1:])
        part = pa.py_buffer(data[start : start + offsets[-1]])
        buffers = [_bits(cut.valid), pa.py_buffer(offsets), part]
        found[cut.column.name] = pa.Array.from_buffers(arrow_type(Kind.BYTES), len(own), buffers)
    return found


def _array(kind: Kind, rows: NDArray[Any], valid: Mask | None = None) -> pa.Array:
    buffers = [_bits(valid), pa.py_buffer(rows)]
    return pa.Array.from_buffers(arrow_type(kind), len(rows), buffers)


def _nulls(kind: Kind, count: int) -> pa.Array:
    """Return a column of nulls: a slice of a cached one, which is replaced if it is too short."""
    found = _NULLS[kind]
    if len(found) < count:
        found = _NULLS[kind] = pa.nulls(count, arrow_type(kind))
    return found[:count]


def _spread(found: NDArray[Any], valid: Mask | None) -> NDArray[Any]:
    if valid is None:
        return found
    rows = np.zeros((len(valid), *found.shape[1:]), found.dtype)
    rows[valid] = found
    return rows


def _bits(valid: Mask | None) -> pa.Buffer | None:
    return None if valid is None else pa.py_buffer(np.packbits(valid, bitorder="little"))
