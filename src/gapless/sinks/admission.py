"""Validate batches: complete, linked blocks of one chain, and the rows that belong to them.

An invalid batch is a bug in the caller, so it raises `ValueError` before anything is changed. Sinks
rely on an admitted batch being sorted by key, with no key occurring twice.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from gapless.core.errors import BrokenSeam
from gapless.core.heights import HIGHEST
from gapless.schema import Schema, Table
from gapless.schema.arrow import arrow_schema, one_array
from gapless.sinks.sink import Batch

Numbers = NDArray[np.uint64]


def admit(batch: Batch, schema: Schema) -> None:
    """Raise `ValueError` for an invalid batch, `BrokenSeam` for blocks that do not link."""
    first, last = batch.span
    if not 0 <= first <= last <= HIGHEST:
        raise ValueError(f"`{batch.span}` is not a range of blocks")
    anchor = schema.anchor_of(batch.tables)
    if anchor.name not in batch.tables:
        raise ValueError(f"a batch must hold `{anchor.name}`, in addition to any other table")
    for name, rows in batch.tables.items():
        _admit_rows(batch, schema[name], rows)
    blocks = batch.tables[anchor.name]
    if blocks.num_rows != batch.span.size:  # heights ascend within the span, so one is missing
        raise ValueError(f"`{anchor.name}` has {blocks.num_rows:,} rows for {batch.span}")
    _admit_links(first, blocks, anchor)


def _admit_rows(batch: Batch, table: Table, rows: pa.Table) -> None:
    if not rows.schema.equals(arrow_schema(table)):
        raise ValueError(f"the columns of `{table.name}` differ from the schema")
    if not rows.num_rows:
        return
    chains, heights, *_ = keys = [_numbers(rows, name) for name in table.key]
    if (chains != batch.chain_id).any():
        raise ValueError(f"`{table.name}` has rows of a chain other than {batch.chain_id}")
    if heights.min() < batch.span.first or heights.max() > batch.span.last:
        raise ValueError(f"`{table.name}` has rows outside {batch.span}")
    if (at := first_not_ascending(keys)) is not None:
        raise ValueError(f"`{table.name}` has an unsorted or duplicate key in block {heights[at]}")


def first_not_ascending(keys: list[Numbers]) -> int | None:
    """Return the first row whose key is not greater than that of the previous row."""
    above = ascending(keys)
    return None if above.all() else int(above.argmin()) + 1


def ascending(keys: list[Numbers]) -> NDArray[np.bool_]:
    """Return for each row except the first whether its key is greater than the previous row's."""
    above = np.zeros(len(keys[0]) - 1, np.bool_)
    equal = ~above
    for column in keys:
        above |= equal & (column[1:] > column[:-1])
        equal &= column[1:] == column[:-1]
    return above


def _admit_links(first: int, blocks: pa.Table, anchor: Table) -> None:
    hashes, parents = (one_array(blocks[name]) for name in anchor.links)
    if not parents[1:].equals(hashes[:-1]):
        broken = next(at for at in range(1, len(hashes)) if not parents[at].equals(hashes[at - 1]))
        raise BrokenSeam(
            f"block {first + broken:,} does not link to the previous block of the same batch",
            height=first + broken - 1,
        )


def _numbers(rows: pa.Table, name: str) -> Numbers:
    found: Numbers = one_array(rows[name]).to_numpy()
    return found
