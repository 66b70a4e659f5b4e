"""SQLite as a sink: rows and records of a batch change in one immediate transaction.

Several processes may write to one file. Whoever has begun an immediate transaction is alone until
its end, so a fence that was found low enough still is when the rows are written.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Self

import apsw

from gapless.sinks.database_file import DatabaseFileSink
from gapless.sinks.sqlite import file
from gapless.sinks.sqlite.tables import SqliteTables
from gapless.threads import Thread


class SqliteSink(DatabaseFileSink):
    """A sink in a file. Open it with `open`."""

    def __init__(self, path: Path, thread: Thread, connection: apsw.Connection) -> None:
        super().__init__(file.identity(connection), thread, SqliteTables(connection))
        self._path, self._connection = path, connection

    @classmethod
    async def open(cls, path: Path, *, create: bool = True, foreign_keys: bool = True) -> Self:
        connect = partial(file.connect, path, create=create, foreign_keys=foreign_keys)
        return await cls._opened("sqlite", lambda thread: cls(path, thread, connect()))

    def _telling(self) -> AbstractContextManager[None]:
        return file.in_our_words(self._path)

    def _changing(self) -> AbstractContextManager[None]:
        return file.transaction(self._connection)

    def _looking(self) -> AbstractContextManager[None]:
        return file.transaction(self._connection, "BEGIN")

    def _close(self) -> None:
        self._connection.close()
