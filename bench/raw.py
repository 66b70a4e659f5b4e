"""The maximum speed of a store: the same rows, prepared, and nothing else.

SQLite takes them as tuples, in the tables of a sink with their keys and foreign keys, as durably as
a sink writes, a hundred blocks per transaction. DuckDB takes them as Arrow tables, in the tables of
a sink, a cell of blocks per transaction. Parquet takes them as Arrow tables, uncompressed, a file
for each table and cell. The rows are those that a fetch has stored.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import apsw
import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from gapless.chains.evm.tables import TABLES
from gapless.core.ranges import Span
from gapless.schema import Table
from gapless.schema.duckdb import create_table as duckdb_table
from gapless.schema.sqlite import create_table
from gapless.sinks import Sink
from gapless.sinks.parquet.manifest import CELL

BATCH = 100

Rows = list[tuple[Any, ...]]
Transaction = list[tuple[Table, Rows]]


def stored_rows(path: Path, blocks: int) -> list[Transaction]:
    """The rows of blocks 1 to `blocks` of a SQLite sink, ready to insert."""
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    found = [
        [(table, _between(connection, table, first)) for table in TABLES]
        for first in range(1, blocks + 1, BATCH)
    ]
    connection.close()
    return found


def _between(connection: apsw.Connection, table: Table, first: int) -> Rows:
    names = ", ".join(f'"{column.name}"' for column in table)
    select = f"SELECT {names} FROM {table.name} WHERE block_number BETWEEN ? AND ?"
    ordered = f"{select} ORDER BY {', '.join(table.key)}"
    rows: Rows = connection.execute(ordered, (first, first + BATCH - 1)).fetchall()
    return rows


def insert(path: Path, transactions: list[Transaction]) -> float:
    """Seconds to insert them all into a new file."""
    connection = apsw.Connection(str(path))
    connection.execute("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL")
    connection.execute("PRAGMA foreign_keys = ON")
    for table in TABLES:
        connection.execute(create_table(table))
    began = time.perf_counter()
    for transaction in transactions:
        connection.execute("BEGIN IMMEDIATE")
        for table, rows in transaction:
            marks = ", ".join("?" for _ in table)
            connection.executemany(f"INSERT INTO {table.name} VALUES ({marks})", rows)
        connection.execute("COMMIT")
    taken = time.perf_counter() - began
    connection.close()
    return taken


def append(path: Path, batches: Sequence[Mapping[str, pa.Table]]) -> float:
    """Seconds that DuckDB takes to insert them all into a new file."""
    connection = duckdb.connect(str(path))
    for table in TABLES:
        connection.execute(duckdb_table(table))
    began = time.perf_counter()
    for tables in batches:
        connection.begin()
        for name, rows in tables.items():
            connection.register("rows", rows)
            connection.execute(f"INSERT INTO {name} BY NAME FROM rows")
        connection.commit()
    taken = time.perf_counter() - began
    connection.close()
    return taken


async def stored_cells(sink: Sink, chain_id: int, blocks: int) -> list[Mapping[str, pa.Table]]:
    """The rows of blocks 1 to `blocks` of a sink, cell by cell."""
    return [
        {table.name: (await sink.read(table, chain_id, span)).combine_chunks() for table in TABLES}
        for span in _cells(blocks)
    ]


def _cells(blocks: int) -> Iterator[Span]:
    for cell in range(0, blocks + 1, CELL):
        yield Span(max(1, cell), min(blocks, cell + CELL - 1))


def write(folder: Path, cells: Sequence[Mapping[str, pa.Table]]) -> float:
    """Seconds to write them all durably to files in a new folder."""
    folder.mkdir()
    began = time.perf_counter()
    for nth, tables in enumerate(cells):
        for name, rows in tables.items():
            with (folder / f"{name}-{nth}.parquet").open("wb") as file:
                pq.write_table(rows, file, compression="none")
                file.flush()
                os.fsync(file.fileno())
    return time.perf_counter() - began
