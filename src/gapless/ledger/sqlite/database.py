"""SQLite as the ledger's database.

A process has one connection, on its own thread. A transaction is one call on that thread: the
protocol's coroutines never suspend there, so they run to their end synchronously. Writers begin
immediate, so what they read stays true until they commit.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import apsw

from gapless import sqlite
from gapless.core.coroutines import run_sync
from gapless.core.errors import LedgerError, LedgerUnreachable, LibraryMismatch
from gapless.core.remedies import ChooseLedger, CreateLedger
from gapless.ledger import sql
from gapless.ledger.database import WORKER_SECONDS, Body, LedgerTransaction, Row, named
from gapless.ledger.fragments import Dialect
from gapless.ledger.sqlite.session import Session
from gapless.system import SYSTEM, System

T = TypeVar("T")


def _items(parameter: str, types: Mapping[str, type]) -> str:
    columns = ", ".join(f"value ->> '{name}' AS {name}" for name in types)
    return f"SELECT {columns} FROM json_each(:{parameter})"  # noqa: S608 - our own names


def _field(column: str, name: str) -> str:
    return f"{column} ->> '{name}'"


def _on_one_line(text: str) -> str:
    """The text without its layout: apsw hashes it at each run, which takes 1 ns per character."""
    return " ".join(text.split())


DIALECT = Dialect(
    now="coalesce(:now, unixepoch('subsec'))", least="min", field=_field, items=_items
)
STEPS = {
    name: tuple(sql.Statement.parse(_on_one_line(step)) for step in statement.text.split(";\n"))
    for name, statement in sql.load(__package__, DIALECT).items()
}
"""Statements by their steps; `:returned` of a step is the first column of the rows before it."""
_COLUMNS: dict[str, tuple[str, ...]] = {}
"""The names of the columns of statements that have returned rows; asking SQLite takes longer."""
APPLICATION_ID = 0x6761706C  # "gapl"
UNABLE = (apsw.IOError, apsw.FullError, apsw.ReadOnlyError, apsw.CantOpenError)
"""Failures that time or a person can fix: a full disk, a file without write permission."""
BROKEN = (apsw.CorruptError, apsw.NotADBError)
LONGEST_WAIT = 30.0  # seconds for a lock
SESSION_WAIT = 15.0  # for a job's own transaction; the worker's heartbeats wait meanwhile


def _transact(connection: apsw.Connection, work: Callable[[], T], begin: str) -> T:
    connection.execute(begin)
    try:
        result = work()
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    return result


class SqliteTransaction:
    """Statements on the connection's thread; nothing here suspends."""

    def __init__(self, connection: apsw.Connection, bound: Callable[[], dict[str, Any]]) -> None:
        self.again = False
        self._connection = connection
        self._bound = bound

    async def fetch(self, statement: str, **parameters: Any) -> list[Row]:
        given = {**self._bound(), **parameters}
        rows: list[Row] = []
        for step in STEPS[statement]:
            if "returned" in step.parameters:
                given["returned"] = [row[0] for row in rows]
            rows += self._connection.execute(step.text, step.values(given)).fetchall()
        return rows

    async def fetch_as(self, kind: type[T], statement: str, **parameters: Any) -> list[T]:
        given = {**self._bound(), **parameters}
        first, *others = STEPS[statement]
        cursor = self._connection.execute(first.text, first.values(given))
        rows = cursor.fetchall() if statement in _COLUMNS else _described(statement, cursor)
        for step in others:
            self._connection.execute(step.text, step.values(given))
        return named(kind, _COLUMNS[statement], rows) if rows else []

    async def count(self, statement: str, **parameters: Any) -> int:
        return len(await self.fetch(statement, **parameters))

    async def execute(self, text: str, **parameters: Any) -> list[Row]:
        return self._connection.execute(
            text, {name: sql.bindable(value) for name, value in parameters.items()}
        ).fetchall()

    def release_early(self) -> None:
        """SQLite keeps its lock until the write is on disk."""


def _described(statement: str, cursor: apsw.Cursor) -> list[Row]:
    """The rows of a statement, whose columns are recorded if there are any."""
    first = cursor.fetchone()
    if first is None:
        return []
    _COLUMNS[statement] = tuple(name for name, _ in cursor.get_description())
    return [first, *cursor.fetchall()]


class SqliteDatabase:
    """A ledger in its own file."""

    def __init__(
        self,
        path: Path,
        bound: Callable[[], dict[str, Any]],
        *,
        create: bool = True,
        system: System = SYSTEM,
    ) -> None:
        self._path = path
        self._place = str(path.absolute())  # a job may change the folder of its process
        self._bound = bound
        self._create = create
        self._thread = system.serial_thread("gapless-ledger")
        self._turn = asyncio.Lock()
        self._connection: apsw.Connection
        self._file: tuple[int, int] | None = None  # which one is open

    @property
    def library(self) -> str:
        return f"SQLite {apsw.sqlite_lib_version()}"

    @property
    def newest_schema(self) -> int:
        return sql.migrations(__package__)[-1][0]

    async def open(self) -> SqliteDatabase:
        try:
            self._connection = await self._hop(self._connect)
        except BaseException:
            self._thread.end()
            raise
        return self

    def _connect(self) -> apsw.Connection:
        if (version := sqlite.unsafe_version()) is not None:
            raise LibraryMismatch(
                f"SQLite {version} can corrupt a ledger shared by processes", hint=sqlite.UPGRADE
            )
        if not self._create and (not self._path.exists() or not self._path.stat().st_size):
            raise LedgerUnreachable(
                f"there is no ledger at `{self._path}`",
                remedy=CreateLedger(),
            )
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            connection = apsw.Connection(str(self._path))
            self._thread.wait_for_locks(connection, LONGEST_WAIT)
            # In this order: a process that creates the ledger writes both, maybe in between.
            if (
                connection.execute("SELECT 1 FROM sqlite_schema").fetchone()
                and connection.pragma("application_id") != APPLICATION_ID
            ):
                connection.close()
                raise LedgerUnreachable(
                    f"`{self._path}` is a SQLite database, but not a Gapless ledger",
                    remedy=ChooseLedger(),
                )
            sqlite.use_write_ahead_log(connection)
            connection.pragma("synchronous", "FULL")
            # Plans do not depend on bound values. Otherwise every statement that could use a
            # partial index is compiled again at each run, which takes longer than the run.
            connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
        except (apsw.Error, OSError) as error:
            raise LedgerUnreachable(
                f"cannot open the ledger `{self._path}`: {error}",
                hint="check the path, its permissions, and that it is a Gapless ledger",
            ) from error
        return connection

    async def transact(
        self,
        body: Body[T],
        *,
        write: bool = True,
        within: float = WORKER_SECONDS,
        for_rows: float | None = None,  # only the whole ledger can be locked
        atomic: bool = True,  # a commit costs more than it could save
    ) -> T:
        async with self._turn:
            return await self._hop(self._run, body, write, within)

    def _require_file(self) -> None:
        """Raises if the open file is no longer the one at this path."""
        try:
            found = os.stat(self._place)  # noqa: PTH116 - a path object takes twice the time
        except FileNotFoundError:
            file = None
        except OSError as error:  # a disk or a network share that is unavailable for a while
            raise LedgerUnreachable(
                f"the ledger `{self._path}` cannot be accessed: {error.strerror}",
                hint="check its disk, and the permissions of its file and folder",
            ) from error
        else:
            file = found.st_dev, found.st_ino
            self._file = self._file or file
        if file != self._file:
            raise LedgerError(
                f"the ledger `{self._path}` was removed or replaced while it was in use",
                hint="restore the file and start again; everything written since is lost",
            )

    def _run(self, body: Body[T], write: bool, within: float) -> T:
        self._require_file()
        self._thread.wait_for_locks(self._connection, min(within, LONGEST_WAIT))
        transaction = SqliteTransaction(self._connection, self._bound)
        begin = "BEGIN IMMEDIATE" if write else "BEGIN"
        return _transact(self._connection, lambda: run_sync(body(transaction)), begin)

    @asynccontextmanager
    async def session(self, limit: float | None = None) -> AsyncIterator[LedgerTransaction]:
        await self._turn.acquire()
        inner = SqliteTransaction(self._connection, self._bound)
        session = Session(inner, self._connection, self._hop, self._turn.release)
        try:
            self._thread.wait_for_locks(self._connection, SESSION_WAIT)
            await self._hop(self._require_file)
            await session.begin(limit)
            yield session
            await session.commit()
        except BaseException:
            await session.roll_back()
            raise

    async def schema_version(self) -> int | None:
        version = await self._hop(self._connection.pragma, "user_version")
        return int(version) or None

    async def migrate(self) -> None:
        def apply() -> None:
            done = self._connection.pragma("user_version")
            for number, script in sql.migrations(__package__):
                if number > done:
                    self._connection.execute(script)
                    self._connection.pragma("user_version", number)
            self._connection.pragma("application_id", APPLICATION_ID)

        async with self._turn:
            self._thread.wait_for_locks(self._connection, LONGEST_WAIT)
            await self._hop(_transact, self._connection, apply, "BEGIN IMMEDIATE")

    async def integrity_problems(self) -> list[str]:
        def look() -> list[str]:
            found: list[str] = []
            try:
                for (said,) in self._connection.execute("PRAGMA quick_check"):
                    found.append(str(said))
            except apsw.CorruptError as error:
                found.append(str(error))
            return [] if found == ["ok"] else found

        async with self._turn:
            return await self._hop(look)

    async def notify(self) -> None:
        """SQLite carries no messages: other processes poll."""

    def on_notify(self, wake: Callable[[], None]) -> None:
        """SQLite carries no messages: other processes poll."""

    async def close(self) -> None:
        async with self._turn:
            await self._hop(self._connection.close)
        self._thread.end()

    async def _hop(self, function: Callable[..., T], *arguments: Any) -> T:
        """Runs a function on the connection's thread, even if the caller is cancelled meanwhile."""
        try:
            return await self._thread.run(function, *arguments)
        except apsw.BusyError as error:
            raise LedgerUnreachable(
                f"the ledger `{self._path}` is locked",
                hint="another process holds a transaction open on it",
            ) from error
        except UNABLE as error:
            raise LedgerUnreachable(
                f"the ledger `{self._path}` failed: {error}",
                hint="check its disk, and the permissions of its file and folder",
            ) from error
        except BROKEN as error:
            raise LedgerError(
                f"the ledger `{self._path}` failed: {error}",
                hint="restore it from a backup",
            ) from error
