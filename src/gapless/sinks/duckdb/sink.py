"""DuckDB as a sink: for whoever asks questions of whole columns, in one file.

A range is replaced by deleting and inserting its rows and its records, in one transaction. Only
one process writes to a file; within it, writers take turns.
"""

from __future__ import annotations

from collections.abc import Collection
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Self

import pyarrow as pa

from gapless.core.driving import drive
from gapless.core.ranges import Span
from gapless.schema import Table
from gapless.sinks import sql
from gapless.sinks.admission import admit
from gapless.sinks.duckdb import file
from gapless.sinks.duckdb.tables import DuckdbTables
from gapless.sinks.sink import Batch, Stored
from gapless.sinks.threaded import ThreadedSink
from gapless.threads import Thread

if TYPE_CHECKING:
    import duckdb


class DuckdbSink(ThreadedSink):
    """A sink in a file. Open it with `open`."""

    def __init__(self, path: Path, thread: Thread, connection: duckdb.DuckDBPyConnection) -> None:
        super().__init__(file.identity(connection), thread)
        self._path, self._connection = path, connection
        self._tables = DuckdbTables(connection)

    @classmethod
    async def open(cls, path: Path, *, create: bool = True) -> Self:
        return await cls._opened(
            "duckdb", lambda thread: cls(path, thread, file.connect(path, create=create))
        )

    def _telling(self) -> AbstractContextManager[None]:
        return file.in_our_words(self._path)

    def _write(self, batch: Batch, fence: int) -> None:
        admit(batch)
        with file.transaction(self._connection, self._path):
            drive(sql.write(self._tables, batch, fence))

    def _retract(self, chain_id: int, span: Span, fence: int) -> None:
        with file.transaction(self._connection, self._path):
            drive(sql.retract(self._tables, chain_id, span, fence))

    def _stored(self, chain_id: int, span: Span | None) -> list[Stored]:
        with file.transaction(self._connection, self._path):
            return drive(sql.stored(self._tables, chain_id, span))

    def _chains(self) -> list[int]:
        return self._tables.chains()

    def _read(
        self, table: Table, chain_id: int, span: Span, columns: Collection[str] | None
    ) -> pa.Table:
        return drive(self._tables.read(table, chain_id, span, columns))

    def _counts(self, table: Table, chain_id: int, span: Span) -> pa.Table:
        return self._tables.counts(table, chain_id, span)

    def _highest_fence(self) -> int:
        return self._tables.highest_fence()

    def _finish(self) -> None:
        """Brings all of it from the log into the file, where it is read the fastest."""
        self._connection.execute("CHECKPOINT")

    def _close(self) -> None:
        self._connection.close()
        # At the end of a process DuckDB lists on stderr whatever is still referred to.
        del self._connection, self._tables
