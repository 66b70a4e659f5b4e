"""Rows of derived tables: how blocks count them, and how stored ones are compared.

A derived row is never taken on trust: where the rows that it follows from are stored, deriving it
again must give the same row. So a row that is missing, altered or added is a contradiction.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from gapless.chains.family import Flaw
from gapless.schema import Table
from gapless.schema import compute as pc
from gapless.schema.arrow import one_array

Numbers = NDArray[np.uint64]


def counted(blocks: pa.Table, table: Table, rows: pa.Table) -> pa.Table:
    """Return blocks that say how many rows each of them has in a derived table."""
    at = blocks.schema.get_field_index(table.anchor.counts[table.name])
    counts = pa.array(_counts(_heights(blocks), rows), pa.uint64())
    return blocks.set_column(at, blocks.schema.field(at), counts)


def contradictions(
    table: Table, stored: Mapping[str, pa.Table], derived: pa.Table
) -> Iterator[Flaw]:
    """Yield a flaw for each block whose stored rows of a derived table differ from these."""
    blocks, rows = stored[table.anchor.name], stored[table.name]
    heights = _heights(blocks)
    there, expected = _counts(heights, rows), _counts(heights, derived)
    column = table.anchor.counts[table.name]
    declared = one_array(pc.equal(blocks[column], pa.array(expected))).fill_null(False)
    for height in heights[~declared.to_numpy(zero_copy_only=False)].tolist():
        yield Flaw(height, table.anchor.name, f"`{column}` contradicts the other columns")
    for at in np.flatnonzero(there != expected).tolist():
        message = f"{there[at]:,} rows are stored, but {expected[at]:,} follow from other tables"
        yield Flaw(int(heights[at]), table.name, message)
    comparable = pa.array(heights[there == expected])
    one, other = (
        each.filter(pc.is_in(each["block_number"], value_set=comparable))
        for each in (rows, derived)
    )
    yield from differences(table.name, one, other)


def differences(name: str, stored: pa.Table, decoded: pa.Table) -> Iterator[Flaw]:
    """Yield a flaw for each column and block in which stored rows differ from decoded ones."""
    if stored.num_rows != decoded.num_rows:
        rows = stored if stored.num_rows else decoded
        height = int(rows["block_number"][0].as_py())
        message = f"{stored.num_rows:,} rows are stored, but its blocks have {decoded.num_rows:,}"
        yield Flaw(height, name, message)
        return
    for column in decoded.column_names:
        one, other = one_array(stored[column]), one_array(decoded[column])
        if one.equals(other):
            continue
        same = pc.fill_null(pc.equal(one, other), False)
        both_null = pc.and_(one.is_null(), other.is_null())
        differs = ~pc.or_(same, both_null).to_numpy(zero_copy_only=False)
        heights = np.unique(one_array(stored["block_number"]).to_numpy()[differs]).tolist()
        for height in heights:
            message = f"`{column}` contradicts the other columns"
            yield Flaw(int(height), name, message)


def _heights(rows: pa.Table) -> Numbers:
    found: Numbers = one_array(rows["block_number"]).to_numpy()
    return found


def _counts(heights: Numbers, rows: pa.Table) -> Numbers:
    """Return how many rows there are at each height; stored rows may be in any order."""
    own = np.sort(_heights(rows))
    first, last = (np.searchsorted(own, heights, side) for side in ("left", "right"))
    return (last - first).astype(np.uint64)
