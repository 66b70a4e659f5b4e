"""How a batch replaces blocks that are already stored. Pure.

An equal hash means an equal block: its rows in other tables stay. So do the counts of those rows,
which the batch does not know because those tables were not requested. If the hash differs,
everything that is stored of the old block is removed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from gapless.core.ranges import RangeSet
from gapless.schema import Schema, Table
from gapless.schema import compute as pc
from gapless.schema.arrow import one_array
from gapless.sinks.changes import Change
from gapless.sinks.records import Dropped
from gapless.sinks.sink import Batch


def compared_columns(anchor: Table) -> tuple[str, ...]:
    """Return the columns of stored blocks that a batch is compared with."""
    return ("block_number", anchor.links.hash, *_optional_counts(anchor).values())


def _optional_counts(anchor: Table) -> dict[str, str]:
    """Return the columns for row counts that a batch may not know, by table."""
    return {name: column for name, column in anchor.counts.items() if anchor[column].nullable}


@dataclass(frozen=True)
class Revision:
    """The rows that replace stored ones, and the ranges to delete first."""

    anchor: Table
    blocks: pa.Table
    dropped: Dropped  # by table: ranges whose stored rows are deleted
    replaced: Mapping[int, bytes] = field(default_factory=dict)  # hashes of blocks that go

    def rows(self, batch: Batch, name: str) -> pa.Table:
        """Return the rows of a table, in one chunk per column: they are read more than once."""
        rows = self.blocks if name == self.anchor.name else batch.tables[name]
        return rows.combine_chunks()

    def change(self, batch: Batch, fence: int) -> Change:
        """Return the change that a write of the batch makes; its position is not known yet."""
        hashes = self.blocks[self.anchor.links.hash].to_pylist()
        new = dict(zip(range(batch.span.first, batch.span.last + 1), hashes, strict=True))
        return Change(
            0, batch.chain_id, batch.span, fence, retracted=False, old=self.replaced, new=new
        )


def revised(batch: Batch, stored: pa.Table | None, schema: Schema) -> Revision:
    """Compare a batch with the `compared_columns` of the stored blocks in its range, if any."""
    anchor = schema.anchor_of(batch.tables)
    tables = schema.family_of(anchor)
    blocks = batch.tables[anchor.name]
    whole = RangeSet.of(batch.span)
    if stored is None or not stored.num_rows:
        return Revision(anchor, blocks, {each.name: whole for each in tables})
    heights, hash_ = one_array(stored["block_number"]), anchor.links.hash
    places = pa.array(heights.to_numpy() - np.uint64(batch.span.first))
    same = pc.equal(one_array(blocks[hash_]).take(places), one_array(stored[hash_]))
    old = (it.filter(pc.invert(same)).to_pylist() for it in (heights, one_array(stored[hash_])))
    replaced = dict(zip(*old, strict=True))
    # Also what is recorded where no block is stored: rows that have expired.
    changed = whole - RangeSet.from_members(heights.filter(same).to_pylist())
    for name, column in _optional_counts(anchor).items():
        if name not in batch.tables:
            known = stored[column].filter(same)
            blocks = _with_counts(blocks, column, places.filter(same), known)
    return Revision(
        anchor,
        blocks,
        {each.name: whole if each.name in batch.tables else changed for each in tables},
        replaced,
    )


def _with_counts(
    blocks: pa.Table, name: str, places: pa.Array, counts: pa.ChunkedArray
) -> pa.Table:
    """Return the blocks with the known counts filled in at some positions."""
    known = pc.replace_with_mask(
        pa.nulls(blocks.num_rows, pa.uint64()), _mask(places, blocks.num_rows), one_array(counts)
    )
    at = blocks.schema.get_field_index(name)
    column = pc.coalesce(one_array(blocks[name]), known)
    return blocks.set_column(at, blocks.schema.field(at), column)


def _mask(places: pa.Array, size: int) -> pa.Array:
    mask = np.zeros(size, np.bool_)
    mask[places.to_numpy()] = True
    return pa.array(mask)
