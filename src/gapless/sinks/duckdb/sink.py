"""DuckDB as a sink: for whoever asks questions of whole columns, in one file.

A range is replaced by deleting and inserting its rows and its records, in one transaction. Only
one process writes to a file; within it, writers take turns. A statement costs milliseconds, however
few its rows are, so writes are large.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Self

from gapless.sinks.database_file import DatabaseFileSink
from gapless.sinks.duckdb import file
from gapless.sinks.duckdb.tables import DuckdbTables
from gapless.threads import Thread

if TYPE_CHECKING:
    import duckdb


class DuckdbSink(DatabaseFileSink):
    """A sink in a file. Open it with `open`."""

    batch_blocks: int | None = 1000
    shareable: bool = False

    def __init__(self, path: Path, thread: Thread, connection: duckdb.DuckDBPyConnection) -> None:
        super().__init__(file.identity(connection), thread, DuckdbTables(connection))
        self._path, self._connection = path, connection

    @classmethod
    async def open(cls, path: Path, *, create: bool = True) -> Self:
        return await cls._opened(
            "duckdb", lambda thread: cls(path, thread, file.connect(path, create=create))
        )

    def _telling(self) -> AbstractContextManager[None]:
        return file.in_our_words(self._path)

    def _changing(self) -> AbstractContextManager[None]:
        return file.transaction(self._connection, self._path)

    def _looking(self) -> AbstractContextManager[None]:
        return file.snapshot(self._connection)

    def _close(self) -> None:
        self._connection.close()
        # At the end of a process DuckDB lists on stderr whatever is still referred to.
        del self._connection, self._tables
