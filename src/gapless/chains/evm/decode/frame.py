"""Build a table from its columns, given the block that each row belongs to.

The position of a row determines its chain, height and time, so these columns are computed from row
counts instead of being parsed. The position also tells which block a malformed value belongs to.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa
from msgspec import Struct
from msgspec.structs import astuple
from numpy.typing import NDArray

from gapless.chains.evm.decode import columns
from gapless.chains.evm.decode.arrays import BadField, Fields, arrays, number_array
from gapless.chains.evm.decode.columns import BadValue, Numbers
from gapless.chains.evm.decode.structs import Header
from gapless.core.errors import BadAnswer
from gapless.schema import Table
from gapless.schema.arrow import arrow_schema

Counts = NDArray[np.int64]


@dataclass(frozen=True)
class Frame:
    """The blocks that the rows of a table belong to."""

    chain_id: int
    heights: Numbers
    times: Numbers

    @classmethod
    def of(cls, headers: Sequence[Header], chain_id: int) -> Frame:
        """Return the frame of a table with one row per block."""
        try:
            heights = columns.numbers([header.number for header in headers])
        except BadValue as error:
            raise BadAnswer(f"`blocks.block_number`: {error}") from error
        try:
            times = columns.numbers([header.timestamp for header in headers])
        except BadValue as error:
            field = BadField("block_timestamp", error.row, error)
            raise cls(chain_id, heights, heights).refusal("blocks", field) from error
        return cls(chain_id, heights, times)

    def repeated(self, counts: Counts) -> Frame:
        """Return the frame of a table with `counts` rows for each row of this one."""
        heights, times = np.repeat(self.heights, counts), np.repeat(self.times, counts)
        return Frame(self.chain_id, heights, times)

    def table(self, table: Table, computed: Mapping[str, pa.Array], fields: Fields) -> pa.Table:
        """Build the table: decode the columns that are not already `computed` from `fields`."""
        if not len(self.heights):
            return arrow_schema(table).empty_table()
        computed = {**self._implied(), **computed}
        wanted = [column for column in table.columns if column.name not in computed]
        try:
            found = {**computed, **arrays(wanted, fields)}
        except BadField as error:
            raise self.refusal(table.name, error) from error
        schema = arrow_schema(table)
        return pa.Table.from_arrays([found[name] for name in schema.names], schema=schema)

    def refusal(self, table: str, error: BadField) -> BadAnswer:
        """Return an error that names the block of a malformed field."""
        height = self.heights[error.row]
        return BadAnswer(f"`{table}.{error.column}` of block {height}: {error}")

    def _implied(self) -> dict[str, pa.Array]:
        return {
            "chain_id": number_array(np.full(len(self.heights), self.chain_id, np.uint64)),
            "block_number": number_array(self.heights),
            "block_timestamp": number_array(self.times),
        }


def fields(kind: type[Struct], rows: Sequence[Struct]) -> dict[str, list[Any]]:
    """Transpose rows of structs into columns.

    Only one row at a time exists as a tuple. If all of them existed at once, the garbage collector
    would examine them, which would double the cost.
    """
    names = kind.__struct_fields__
    flat = [*chain.from_iterable(map(astuple, rows))]
    return {name: flat[at :: len(names)] for at, name in enumerate(names)}


def spread(fields: Fields, rows: Sequence[object | None]) -> Fields:
    """Insert None into the columns wherever `rows` has no row."""
    return {name: [*_with_gaps(values, rows)] for name, values in fields.items()}


def _with_gaps(values: Sequence[Any], rows: Sequence[object | None]) -> Iterator[Any]:
    rest = iter(values)
    return (None if row is None else next(rest) for row in rows)


def counted(groups: Iterable[Sized]) -> Counts:
    return np.fromiter(map(len, groups), np.int64)


def positions(counts: Counts) -> Counts:
    """Return the position of each row in its group."""
    starts = np.cumsum(counts) - counts
    return np.arange(counts.sum(), dtype=np.int64) - np.repeat(starts, counts)
