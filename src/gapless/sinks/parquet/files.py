"""Single Parquet files: written for good, read in part."""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from gapless.core.errors import SinkUnusable
from gapless.core.ranges import Span
from gapless.schema import Table
from gapless.schema.arrow import arrow_schema
from gapless.schema.digest import one_array

# Values that come again and again within a file. For all others a dictionary costs time, and room.
_REPEATED = {
    *("chain_id", "block_number", "block_timestamp"),
    *("transaction_index", "log_position", "withdrawal_position"),
    *("miner", "gas_limit", "difficulty", "difficulty_f64", "nonce", "sha3_uncles", "uncles"),
    *("type", "to_address", "status", "access_list"),
    *("address", "topic0", "transaction_hash"),
}


def write_file(path: Path, table: Table, rows: pa.Table) -> None:
    """Writes rows to a new file, durably; that its folder names it is the caller's business."""
    with path.open("wb") as file:
        pq.write_table(
            rows,
            file,
            compression="zstd",
            compression_level=1,
            use_dictionary=[column.name for column in table if column.name in _REPEATED],
            write_statistics=[*table.key, "block_timestamp"],
        )
        file.flush()
        os.fsync(file.fileno())


def read_file(
    path: Path, table: Table, span: Span, columns: Collection[str] | None = None
) -> pa.Table:
    """The rows of a span, in the order of the file, with columns in the order of the table."""
    names = [it.name for it in table if columns is None or it.name in columns]
    with pq.ParquetFile(path) as file:
        there = set(file.schema_arrow.names)
        _refuse_others(path, table, there)
        found = file.read(
            list(dict.fromkeys(["block_number", *(it for it in names if it in there)]))
        )
    heights = one_array(found["block_number"]).to_numpy()
    start, end = np.searchsorted(heights, [span.first, span.last + 1])
    rows = found.slice(int(start), int(end - start))
    schema = pa.schema([arrow_schema(table).field(name) for name in names])
    return pa.table(
        [
            rows[field.name] if field.name in there else pa.nulls(rows.num_rows, field.type)
            for field in schema
        ],
        schema,
    )


def _refuse_others(path: Path, table: Table, there: set[str]) -> None:
    """A file of an older version may lack columns that can be null, and that is all."""
    lacking = [column for column in table if column.name not in there]
    if there - {column.name for column in table} or not all(it.nullable for it in lacking):
        raise SinkUnusable(
            f"`{path}` has other columns than this Gapless",
            hint="use the Gapless that wrote it, or fetch into a new folder",
        )


def sync_folder(path: Path) -> None:
    """Makes durable what a folder names."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
