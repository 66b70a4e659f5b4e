"""SQLite as the ledger's database.

A process has one connection, on a thread of its own. A transaction is one hop to that thread:
the protocol's coroutines never really wait there, so they are driven to their end in place.
Writers begin immediate, so whatever they read holds until they commit.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, TypeVar

import apsw

from gapless.core.errors import LedgerError, LedgerUnreachable, LibraryMismatch
from gapless.ledger import sql
from gapless.ledger.database import Body, Row, Transaction

T = TypeVar("T")

STATEMENTS = sql.load(__package__, now="coalesce(:now, unixepoch('subsec'))")
APPLICATION_ID = 0x6761706C  # "gapl"
BUSY_MS = 30_000
SAFE_SQLITE = (3, 51, 3)  # older ones can corrupt a WAL that several processes use
BROKEN = (apsw.IOError, apsw.FullError, apsw.CorruptError, apsw.NotADBError, apsw.ReadOnlyError)


def _drive(coroutine: Awaitable[T]) -> T:
    """Runs a coroutine that never suspends."""
    step = coroutine.__await__()
    try:
        next(step)
    except StopIteration as end:
        result: T = end.value
        return result
    raise RuntimeError("a SQLite transaction must not wait for anything")


@contextmanager
def _transaction(connection: apsw.Connection, begin: str = "BEGIN IMMEDIATE") -> Iterator[None]:
    connection.execute(begin)
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


class SqliteTransaction:
    """Statements on the connection's thread; nothing here suspends."""

    def __init__(self, connection: apsw.Connection, bound: Callable[[], dict[str, Any]]) -> None:
        self.again = False
        self._connection = connection
        self._bound = bound

    async def fetch(self, statement: str, **parameters: Any) -> list[Row]:
        return self._run(STATEMENTS[statement], {**self._bound(), **parameters})

    async def execute(self, text: str, **parameters: Any) -> list[Row]:
        return self._run(sql.Statement.parse(text), parameters)

    def _run(self, statement: sql.Statement, given: dict[str, Any]) -> list[Row]:
        values = dict(zip(statement.parameters, statement.values(given), strict=True))
        return self._connection.execute(statement.text, values).fetchall()


class _Hopping:
    """The transaction as seen from the event loop: each statement is a hop to the thread."""

    again = False

    def __init__(self, inner: SqliteTransaction, hop: Callable[..., Awaitable[Any]]) -> None:
        self._inner, self._hop = inner, hop

    async def fetch(self, statement: str, **parameters: Any) -> list[Row]:
        rows: list[Row] = await self._hop(_drive, self._inner.fetch(statement, **parameters))
        return rows

    async def execute(self, text: str, **parameters: Any) -> list[Row]:
        rows: list[Row] = await self._hop(_drive, self._inner.execute(text, **parameters))
        return rows


class SqliteDatabase:
    """A ledger in a file of its own."""

    def __init__(
        self, path: Path, bound: Callable[[], dict[str, Any]], *, create: bool = True
    ) -> None:
        self._path = path
        self._bound = bound
        self._create = create
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="gapless-ledger")
        self._turn = asyncio.Lock()
        self._connection: apsw.Connection

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
            self._thread.shutdown()
            raise
        return self

    def _connect(self) -> apsw.Connection:
        if tuple(map(int, apsw.sqlite_lib_version().split("."))) < SAFE_SQLITE:
            raise LibraryMismatch(
                f"SQLite {apsw.sqlite_lib_version()} can corrupt a ledger shared by processes",
                hint="install apsw 3.51.3 or newer",
            )
        if not self._create and not self._path.exists():
            raise LedgerUnreachable(
                f"there is no ledger at `{self._path}`",
                hint="give its place with `--ledger` or `GAPLESS_LEDGER`",
            )
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            connection = apsw.Connection(str(self._path))
            connection.set_busy_timeout(BUSY_MS)
            connection.execute("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL")
            stranger = (
                connection.pragma("application_id") != APPLICATION_ID
                and connection.execute("SELECT 1 FROM sqlite_schema").fetchone()
            )
        except (apsw.Error, OSError) as error:
            raise LedgerUnreachable(
                f"cannot open the ledger `{self._path}`: {error}",
                hint="check the path, its permissions, and that it is a Gapless ledger",
            ) from error
        if stranger:
            connection.close()
            raise LedgerUnreachable(
                f"`{self._path}` is a SQLite database, but not a Gapless ledger",
                hint="give another path with `--ledger`",
            )
        return connection

    async def transact(self, body: Body[T], *, write: bool = True) -> T:
        async with self._turn:
            return await self._hop(self._run, body, write)

    def _run(self, body: Body[T], write: bool) -> T:
        with _transaction(self._connection, "BEGIN IMMEDIATE" if write else "BEGIN"):
            return _drive(body(SqliteTransaction(self._connection, self._bound)))

    @asynccontextmanager
    async def session(self) -> AsyncIterator[Transaction]:
        async with self._turn:
            await self._hop(self._connection.execute, "BEGIN IMMEDIATE")
            try:
                yield _Hopping(SqliteTransaction(self._connection, self._bound), self._hop)
                await self._hop(self._connection.execute, "COMMIT")
            except BaseException:
                if self._connection.in_transaction:
                    await self._hop(self._connection.execute, "ROLLBACK")
                raise

    async def schema_version(self) -> int | None:
        version = await self._hop(self._connection.pragma, "user_version")
        return int(version) or None

    async def migrate(self) -> None:
        def apply() -> None:
            with _transaction(self._connection):
                done = self._connection.pragma("user_version")
                for number, script in sql.migrations(__package__):
                    if number > done:
                        self._connection.execute(script)
                        self._connection.pragma("user_version", number)
                self._connection.pragma("application_id", APPLICATION_ID)

        async with self._turn:
            await self._hop(apply)

    async def integrity_problems(self) -> list[str]:
        rows = await self._hop(self._connection.execute, "PRAGMA quick_check")
        return [str(row[0]) for row in rows if row[0] != "ok"]

    async def notify(self) -> None:
        """SQLite carries no messages: other processes poll."""

    def on_notify(self, wake: Callable[[], None]) -> None:
        """SQLite carries no messages: other processes poll."""

    async def close(self) -> None:
        async with self._turn:
            await self._hop(self._connection.close)
        self._thread.shutdown()

    async def _hop(self, function: Callable[..., T], *arguments: Any) -> T:
        """Runs a function on the connection's thread, to its end even if we are cancelled."""
        loop = asyncio.get_running_loop()
        done = loop.run_in_executor(self._thread, function, *arguments)
        try:
            return await asyncio.shield(done)
        except asyncio.CancelledError:
            await asyncio.wait([done])
            raise
        except apsw.BusyError as error:
            raise LedgerUnreachable(
                f"the ledger `{self._path}` has been locked for {BUSY_MS // 1000} s",
                hint="another process holds a transaction open on it",
            ) from error
        except BROKEN as error:
            raise LedgerError(f"the ledger `{self._path}` failed: {error}") from error
