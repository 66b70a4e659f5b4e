"""SQLite as a sink: rows and records of a batch change in one immediate transaction.

Several processes may write to one file. An immediate transaction excludes all other writers until
it ends, so the fence is still high enough when the rows are written.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from typing import ParamSpec, Self, TypeVar

import apsw

from gapless.core.coroutines import run_sync
from gapless.core.errors import SinkUnusable
from gapless.schema import Index, Schema
from gapless.sinks.companion import Body
from gapless.sinks.database_file import DatabaseFileSink
from gapless.sinks.sink import Access
from gapless.sinks.sqlite import file
from gapless.sinks.sqlite.tables import SqliteTables
from gapless.sinks.write_turns import turn_to_write
from gapless.system import SYSTEM, System
from gapless.threads import SerialThread

P = ParamSpec("P")
T = TypeVar("T")


class SqliteSink(DatabaseFileSink):
    """A sink in a file. Open it with `open`."""

    _tables: SqliteTables

    def __init__(
        self,
        path: Path,
        thread: SerialThread,
        schema: Schema,
        access: Access,
        *,
        foreign_keys: bool,
        system: System = SYSTEM,
    ) -> None:
        self._schema = schema
        self._turn_to_write = turn_to_write(path)
        self._idle_state = None if access.writes else file.idle_state(path)
        self._connect = partial(file.connect, path, schema, access, thread, system)
        self._connection = self._connect(
            foreign_keys=foreign_keys, immutable=self._idle_state is not None
        )
        tables = SqliteTables(self._connection, schema)
        id_ = file.identity(self._connection)
        super().__init__(id_, thread, path, access, tables, system)

    @classmethod
    async def open(
        cls,
        path: Path,
        schema: Schema,
        access: Access = Access.CREATE,
        *,
        foreign_keys: bool = True,
        system: System = SYSTEM,
    ) -> Self:
        return await cls._opened(
            "sqlite",
            lambda it: cls(path, it, schema, access, foreign_keys=foreign_keys, system=system),
            system,
        )

    async def consult(self, body: Body[T]) -> T:
        return await self._run(self._transact, body, self._read_transaction)

    async def transact(self, chain_id: int, body: Body[T], *, alone: bool = False) -> T:
        """Run a function in a transaction, which is always alone."""
        return await self._change(self._transact, body, self._write_transaction)

    def _transact(self, body: Body[T], begin: Callable[[], AbstractContextManager[None]]) -> T:
        with begin():
            return run_sync(body(self._tables))

    async def build_indexes(self, indexes: Mapping[str, Collection[Index]]) -> None:
        """Build each index in its own transaction, so that others can write in between."""
        for statement in await self._run(lambda: self._tables.missing_indexes(indexes)):
            await self._change(self._build_index, statement)

    def _build_index(self, statement: str) -> None:
        with self._write_transaction():
            self._connection.execute(statement)

    async def _run(self, function: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
        return await super()._run(self._run_on_one_state, partial(function, *arguments, **named))

    def _run_on_one_state(self, function: Callable[[], T]) -> T:
        """Run a function on one state of the file, even if it was opened as immutable.

        If a writer has appeared in the meantime, reopen the file as mutable and run the function
        again.
        """
        if self._idle_state is None:
            return function()
        try:
            answer = function()
        except apsw.Error:
            if file.idle_state(self._path) == self._idle_state:
                raise
        else:
            if file.idle_state(self._path) == self._idle_state:
                return answer
        self._connection.close()
        self._connection = self._connect()
        if file.identity(self._connection) != self.id:
            raise SinkUnusable(f"`{self._path}` was replaced by another sink", hint="try again")
        self._idle_state, self._tables = None, SqliteTables(self._connection, self._schema)
        return function()

    def _translate_errors(self) -> AbstractContextManager[None]:
        return file.translate_errors(self._path)

    @contextmanager
    def _write_transaction(self) -> Iterator[None]:
        with self._turn_to_write, file.transaction(self._connection):
            yield

    def _read_transaction(self) -> AbstractContextManager[None]:
        return file.transaction(self._connection, "BEGIN")

    def _close(self) -> None:
        super()._close()
        self._connection.close()
