"""Reading and writing single Parquet files, which never change once written."""

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

# Columns with repeated values. For all others, a dictionary costs time and space.
_REPEATED = {
    *("chain_id", "block_number", "block_timestamp"),
    *("transaction_index", "log_position", "withdrawal_position"),
    *("miner", "gas_limit", "difficulty", "difficulty_f64", "nonce", "sha3_uncles", "uncles"),
    *("type", "to_address", "status", "access_list"),
    *("address", "topic0", "transaction_hash"),
}


def write_file(path: Path, table: Table, rows: pa.Table) -> None:
    """Write rows to a new file and sync it; the caller must sync the folder."""
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


class DamagedFile(Exception):
    """The file differs from what was written; the message says how."""


def read_file(
    path: Path, table: Table, span: Span, columns: Collection[str] | None = None
) -> pa.Table:
    """Return the rows of a span in file order, with the columns in table order."""
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
    """Return what is wrong with a file, judging by its footer; None if nothing is."""
    try:
        with _opened(path, table) as file:
            found = file.metadata.num_rows
    except DamagedFile as error:
        return str(error)
    return None if found == rows else f"has {found:,} rows instead of {rows:,}"


@contextmanager
def _opened(path: Path, table: Table) -> Iterator[pq.ParquetFile]:
    try:
        with pq.ParquetFile(path) as file:
            _refuse_others(table, file.schema_arrow)
            yield file
    except FileNotFoundError:
        raise DamagedFile("is missing") from None
    except pa.ArrowException as error:
        raise DamagedFile(f"cannot be read: {error}") from error
    except OSError as error:  # Arrow's own errors have no errno
        if error.errno not in (None, errno.EIO, errno.EISDIR, errno.ENOTDIR):
            raise
        raise DamagedFile(f"cannot be read: {error}") from error


def _refuse_others(table: Table, existing: pa.Schema) -> None:
    """Raise `DamagedFile` unless the columns match; an older file may lack nullable ones."""
    wanted = arrow_schema(table)
    lacking = [column for column in table if column.name not in existing.names]
    if not all(it.nullable for it in lacking) or not all(
        it.name in wanted.names and it.type == wanted.field(it.name).type for it in existing
    ):
        raise DamagedFile("has columns that do not match this version of Gapless")
