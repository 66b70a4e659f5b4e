"""SQLite as a sink: rows and records of a batch change in one immediate transaction.

Several processes may write to one file. Whoever has begun an immediate transaction is alone until
its end, so a fence that was found low enough still is when the rows are written.
"""

from __future__ import annotations

from collections.abc import Collection
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Self

import apsw
import pyarrow as pa

from gapless.core.driving import drive
from gapless.core.ranges import Span
from gapless.schema import Table
from gapless.sinks import sql
from gapless.sinks.admission import admit
from gapless.sinks.sink import Batch, Stored
from gapless.sinks.sqlite import file
from gapless.sinks.sqlite.tables import SqliteTables
from gapless.sinks.threaded import ThreadedSink
from gapless.threads import Thread


class SqliteSink(ThreadedSink):
    """A sink in a file. Open it with `open`."""

    def __init__(self, path: Path, thread: Thread, connection: apsw.Connection) -> None:
        super().__init__(file.identity(connection), thread)
        self._path, self._connection = path, connection
        self._tables = SqliteTables(connection)

    @classmethod
    async def open(cls, path: Path, *, create: bool = True, foreign_keys: bool = True) -> Self:
        connect = partial(file.connect, path, create=create, foreign_keys=foreign_keys)
        return await cls._opened("sqlite", lambda thread: cls(path, thread, connect()))

    def _telling(self) -> AbstractContextManager[None]:
        return file.in_our_words(self._path)

    def _write(self, batch: Batch, fence: int) -> None:
        admit(batch)
        with file.transaction(self._connection):
            drive(sql.write(self._tables, batch, fence))

    def _retract(self, chain_id: int, span: Span, fence: int) -> None:
        with file.transaction(self._connection):
            drive(sql.retract(self._tables, chain_id, span, fence))

    def _stored(self, chain_id: int, span: Span | None) -> list[Stored]:
        with file.transaction(self._connection, "BEGIN"):
            return drive(sql.stored(self._tables, chain_id, span))

    def _chains(self) -> list[int]:
        return self._tables.ranges.chains()

    def _read(
        self, table: Table, chain_id: int, span: Span, columns: Collection[str] | None
    ) -> pa.Table:
        return drive(self._tables.read(table, chain_id, span, columns))

    def _counts(self, table: Table, chain_id: int, span: Span) -> pa.Table:
        return self._tables.counts(table, chain_id, span)

    def _highest_fence(self) -> int:
        return self._tables.ranges.highest_fence()

    def _finish(self) -> None:
        self._tables.index()

    def _close(self) -> None:
        self._connection.close()
