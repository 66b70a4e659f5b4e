"""DuckDB as a sink: one file for analytical queries over whole columns.

A write deletes and inserts the rows and records of a range in one transaction. Only one process can
write to a file; within it, writers take turns. Every statement takes milliseconds, even for few
rows, so writes are large.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Self

from gapless.schema import Schema
from gapless.sinks.database_file import DatabaseFileSink
from gapless.sinks.duckdb import file
from gapless.sinks.duckdb.tables import DuckdbTables
from gapless.sinks.sink import Access
from gapless.system import SYSTEM, System
from gapless.threads import SerialThread

if TYPE_CHECKING:
    import duckdb


class DuckdbSink(DatabaseFileSink):
    """A sink in a file. Open it with `open`."""

    batch_blocks: int | None = 1000

    def __init__(
        self,
        path: Path,
        thread: SerialThread,
        schema: Schema,
        access: Access,
        connection: duckdb.DuckDBPyConnection,
        system: System = SYSTEM,
    ) -> None:
        tables = DuckdbTables(connection, schema, file.columns(connection))
        super().__init__(file.identity(connection), thread, path, access, tables, system)
        self._connection = connection

    @classmethod
    async def open(
        cls,
        path: Path,
        schema: Schema,
        access: Access = Access.CREATE,
        *,
        system: System = SYSTEM,
    ) -> Self:
        def connect() -> duckdb.DuckDBPyConnection:
            return file.connect(path, schema, access, system)

        return await cls._opened(
            "duckdb", lambda it: cls(path, it, schema, access, connect(), system), system
        )

    def _translate_errors(self) -> AbstractContextManager[None]:
        return file.translate_errors(self._path)

    def _write_transaction(self) -> AbstractContextManager[None]:
        return file.transaction(self._connection, self._path)

    def _read_transaction(self) -> AbstractContextManager[None]:
        return file.snapshot(self._connection)

    def _close(self) -> None:
        super()._close()
        self._connection.close()
        # At exit, DuckDB prints every object that is still referenced to stderr.
        del self._connection, self._tables
