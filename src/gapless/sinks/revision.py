"""A batch that meets blocks which are stored already. Pure.

Where the hash is the same, the block is the same: what other tables have of it stays, and a number
of logs that is known stays known, although this batch did not ask for logs. Where the hash is
another one, everything of the old block goes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gapless.core.ranges import RangeSet
from gapless.schema import BLOCKS, LOGS, TABLES
from gapless.schema.digest import one_array
from gapless.sinks.records import Dropped
from gapless.sinks.sink import Batch

COMPARED = ("block_number", "hash", "log_count")
"""The columns of the stored blocks that decide."""


@dataclass(frozen=True)
class Revision:
    """What is stored in place of what was."""

    blocks: pa.Table
    dropped: Dropped  # by table; what a batch brings replaces what is there

    def rows(self, batch: Batch, name: str) -> pa.Table:
        """The rows of a table, each column in one piece: they are gone through more than once."""
        rows = self.blocks if name == BLOCKS.name else batch.tables[name]
        return rows.combine_chunks()


def revised(batch: Batch, stored: pa.Table | None) -> Revision:
    """The batch, revised by the stored blocks of its range (`COMPARED`), if there are any."""
    blocks = batch.tables[BLOCKS.name]
    whole = RangeSet.of(batch.span)
    if stored is None or not stored.num_rows:
        return Revision(blocks, {each.name: whole for each in TABLES})
    heights = one_array(stored["block_number"])
    places = pa.array(heights.to_numpy() - np.uint64(batch.span.first))
    same = pc.equal(one_array(blocks["hash"]).take(places), one_array(stored["hash"]))
    changed = RangeSet.from_members(heights.filter(pc.invert(same)).to_pylist())
    if LOGS.name not in batch.tables:
        blocks = _remembering(blocks, places.filter(same), stored["log_count"].filter(same))
    return Revision(
        blocks,
        {each.name: whole if each.name in batch.tables else changed for each in TABLES},
    )


def _remembering(blocks: pa.Table, places: pa.Array, counts: pa.ChunkedArray) -> pa.Table:
    """The blocks with the numbers of logs that were known at some places."""
    known = pc.replace_with_mask(
        pa.nulls(blocks.num_rows, pa.uint64()), _mask(places, blocks.num_rows), one_array(counts)
    )
    at = blocks.schema.get_field_index("log_count")
    column = pc.coalesce(one_array(blocks["log_count"]), known)
    return blocks.set_column(at, blocks.schema.field(at), column)


def _mask(places: pa.Array, size: int) -> pa.Array:
    mask = np.zeros(size, np.bool_)
    mask[places.to_numpy()] = True
    return pa.array(mask)
