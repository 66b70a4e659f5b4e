"""Single Parquet files: written for good, read in part."""

from __future__ import annotations

import errno
import os
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from gapless.core.ranges import Span
from gapless.schema import Table
from gapless.schema.arrow import arrow_schema, one_array

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


class Unreadable(Exception):
    """The file is not what was written: it says how."""


def read_file(
    path: Path, table: Table, span: Span, columns: Collection[str] | None = None
) -> pa.Table:
    """The rows of a span, in the order of the file, with columns in the order of the table."""
    names = [it.name for it in table if columns is None or it.name in columns]
    with _opened(path, table) as file:
        existing = set(file.schema_arrow.names)
        found = file.read(
            list(dict.fromkeys(["block_number", *(it for it in names if it in existing)]))
        )
    heights = one_array(found["block_number"]).to_numpy()
    start, end = np.searchsorted(heights, [span.first, span.last + 1])
    rows = found.slice(int(start), int(end - start))
    schema = pa.schema([arrow_schema(table).field(name) for name in names])
    return pa.table(
        [
            rows[field.name] if field.name in existing else pa.nulls(rows.num_rows, field.type)
            for field in schema
        ],
        schema,
    )


def flaw(path: Path, table: Table, rows: int) -> str | None:
    """What is wrong with a file, as far as its end tells; None if nothing is."""
    try:
        with _opened(path, table) as file:
            found = file.metadata.num_rows
    except Unreadable as error:
        return str(error)
    return None if found == rows else f"has {found:,} rows instead of {rows:,}"


@contextmanager
def _opened(path: Path, table: Table) -> Iterator[pq.ParquetFile]:
    try:
        with pq.ParquetFile(path) as file:
            _refuse_others(table, file.schema_arrow)
            yield file
    except FileNotFoundError:
        raise Unreadable("is missing") from None
    except pa.ArrowException as error:
        raise Unreadable(f"cannot be read: {error}") from error
    except OSError as error:  # Arrow's own have no number
        if error.errno not in (None, errno.EIO, errno.EISDIR, errno.ENOTDIR):
            raise
        raise Unreadable(f"cannot be read: {error}") from error


def _refuse_others(table: Table, existing: pa.Schema) -> None:
    """A file of an older version may lack columns that can be null, and that is all."""
    wanted = arrow_schema(table)
    lacking = [column for column in table if column.name not in existing.names]
    if not all(it.nullable for it in lacking) or not all(
        it.name in wanted.names and it.type == wanted.field(it.name).type for it in existing
    ):
        raise Unreadable("has other columns than this Gapless")


def sync_folder(path: Path) -> None:
    """Makes durable what a folder names."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
