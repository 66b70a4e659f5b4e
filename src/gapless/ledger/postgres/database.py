"""PostgreSQL as the ledger's database.

Every transaction has timeouts, shorter than any lease: a process that is suspended in a
transaction loses its locks instead of hiding rows from everyone else, and a server that stops
answering costs seconds. Every commit is on disk before it is acknowledged, whatever the server's
default is, because no fence may ever be used twice. Lost connections are retried for a while, which
is safe because every body is idempotent.

A connection with a session of its own makes these settings once, so that a single statement needs
neither `BEGIN` nor `COMMIT`. Through a transaction-pooling proxy nothing may depend on the session,
so every transaction makes them. `?prepared_statements=off` in the URL avoids the error from which
`postgres.connections` would otherwise detect such a proxy.

Plans are forced. Each statement is written for one plan, by index, which is right for a table of
any size; the planner may only know that the table was small when it was last analyzed.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeVar

import asyncpg

from gapless.core.errors import BadJob, LedgerBusy, LedgerError, LedgerUnreachable, UsageError
from gapless.core.remedies import CheckLedger
from gapless.ledger import sql
from gapless.ledger.database import (
    OVER,
    OVER_HINT,
    PERSON_SECONDS,
    WORKER_SECONDS,
    Body,
    LedgerTransaction,
    Row,
    named,
)
from gapless.ledger.fragments import Dialect
from gapless.ledger.postgres.listener import CHANNEL, listen
from gapless.postgres import failures
from gapless.postgres.connections import Connection, Connections
from gapless.postgres.failures import LOST, POOLED, SERVER_WIDE, UNABLE
from gapless.postgres.url import HINT, split

T = TypeVar("T")

_TYPES = {int: "bigint", float: "float8", str: "text"}


def _items(parameter: str, types: Mapping[str, type]) -> str:
    columns = ", ".join(f"{name} {_TYPES[kind]}" for name, kind in types.items())
    rows = f"json_to_recordset(:{parameter}::json) AS ({columns})"
    return f"SELECT * FROM ROWS FROM ({rows}) WITH ORDINALITY"  # noqa: S608 - our own names


def _field(column: str, name: str) -> str:
    return f"({column}::json ->> '{name}')::bigint"


DIALECT = Dialect(
    now="coalesce(:now::float8, date_part('epoch', statement_timestamp()))",
    least="least",
    field=_field,
    items=_items,
)
STATEMENTS = sql.load(__package__, DIALECT)
NUMBERED = {name: statement.numbered() for name, statement in STATEMENTS.items()}
# After waiting for a lock, reads must see the latest commit, whatever the database's default is.
BEGIN = "BEGIN ISOLATION LEVEL READ COMMITTED"
# All reads see one snapshot, as on SQLite: a check must not see half of another transaction.
BEGIN_READING = "BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY"
ISOLATION = {"default_transaction_isolation": "'read committed'"}  # of statements without `BEGIN`
TRANSACTION = {
    "synchronous_commit": "on",
    "plan_cache_mode": "force_generic_plan",
    "jit": "off",
    "enable_seqscan": "off",
    "enable_bitmapscan": "off",
    "enable_sort": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
}
# A job's own SQL has no time limit: it has locked the chunk's row, which protects its lease.
BEGIN_SESSION = (
    f"{BEGIN}; SET LOCAL synchronous_commit = on; SET LOCAL statement_timeout = 0;"
    " SET LOCAL lock_timeout = '10s'; SET LOCAL idle_in_transaction_session_timeout = '15s'"
)
# The first commit releases the locks without waiting for the disk. The second one waits until its
# own record in the log is on disk, and with it all earlier ones; one write serves all who wait.
COMMIT_EARLY = (
    "SET LOCAL synchronous_commit = off; COMMIT; BEGIN; SET LOCAL synchronous_commit = on;"
    " SELECT pg_logical_emit_message(true, 'gapless', ''); COMMIT"
)
LONGEST_LOCK = 10.0  # seconds
LATE = 1.0  # seconds for an answer to arrive
OPTIONS = ("prepared_statements",)
SESSIONS = 64
MIGRATION_LOCK = 0x6761706C


def timeouts(within: float, for_rows: float | None = None) -> dict[str, str]:
    """The settings of a transaction in which no statement takes longer than `within` seconds."""
    lock = min(within / 2, LONGEST_LOCK) if for_rows is None else for_rows
    return {
        "statement_timeout": str(round(within * 1000)),
        "lock_timeout": str(round(lock * 1000)),
        "idle_in_transaction_session_timeout": "'10s'",
    }


SESSION = TRANSACTION | timeouts(WORKER_SECONDS)


@dataclass(frozen=True)
class Scope:
    """How a body is run; see `Database.transact`."""

    write: bool
    within: float
    for_rows: float | None
    atomic: bool

    def enter(self, connection: Connection) -> AbstractAsyncContextManager[None]:
        beginning = begin(self, connection.is_set)
        if beginning is None:
            return connection.statements(self.within + LATE)
        return connection.transaction(beginning, self.within + LATE)


@lru_cache(maxsize=64)
def begin(scope: Scope, is_set: bool) -> str | None:
    """What begins a transaction; None if its statements can do without one."""
    settings = TRANSACTION | timeouts(scope.within, scope.for_rows)
    if is_set:
        settings = dict(settings.items() - SESSION.items())
    if not (settings or scope.atomic):
        return None
    return "; ".join(
        [BEGIN if scope.write else BEGIN_READING, *_assignments("SET LOCAL", settings)]
    )


class PostgresTransaction:
    """Statements on one connection, within its open transaction."""

    def __init__(
        self,
        connection: Connection,
        bound: Callable[[], dict[str, Any]],
        *,
        prepared: bool = False,
        again: bool = False,
    ) -> None:
        self.again = again
        self._connection = connection
        self._bound = bound
        self._prepared = prepared

    async def fetch(self, statement: str, **parameters: Any) -> list[Row]:
        values = STATEMENTS[statement].values({**self._bound(), **parameters})
        text = NUMBERED[statement]
        return await self._connection.fetch(text, values, prepared=self._prepared)

    async def fetch_as(self, kind: type[T], statement: str, **parameters: Any) -> list[T]:
        rows = await self.fetch(statement, **parameters)
        return named(kind, [*rows[0].keys()], rows) if rows else []

    async def execute(self, text: str, **parameters: Any) -> list[Row]:
        statement = sql.Statement.parse(text)
        values = statement.values(parameters)
        return await self._connection.fetch(statement.numbered(), values, prepared=False)

    async def script(self, text: str) -> None:
        await self._connection.execute(text)

    def release_early(self) -> None:
        self._connection.commit = COMMIT_EARLY


class SessionTransaction(PostgresTransaction):
    """A job's own transaction: it is never run again, so errors of the ledger reach the job."""

    def __init__(
        self,
        connection: Connection,
        bound: Callable[[], dict[str, Any]],
        unreachable: Callable[[Exception], LedgerUnreachable],
    ) -> None:
        super().__init__(connection, bound)
        self._unreachable = unreachable
        self._over = False

    def end(self) -> None:
        """From now on, the connection belongs to somebody else."""
        self._over = True

    async def fetch(self, statement: str, **parameters: Any) -> list[Row]:
        with self._translate_errors():
            return await super().fetch(statement, **parameters)

    async def execute(self, text: str, **parameters: Any) -> list[Row]:
        sql.refuse_ending(text)
        with self._translate_errors():
            return await super().execute(text, **parameters)

    @contextlib.contextmanager
    def lent(self) -> Iterator[asyncpg.Connection]:
        with self._translate_errors():
            yield self._connection.raw

    @contextlib.contextmanager
    def _translate_errors(self) -> Iterator[None]:
        if self._over:
            raise BadJob(OVER, hint=OVER_HINT)
        try:
            yield
        except (*LOST, *SERVER_WIDE) as error:
            raise self._unreachable(error) from error


class PostgresDatabase:
    """A ledger in the schema `gapless` of a PostgreSQL database."""

    def __init__(
        self,
        url: str,
        shown_url: str,
        bound: Callable[[], dict[str, Any]],
        *,
        patience: float = 10.0,
        connections: int = 4,
    ) -> None:
        self._url, options = split(url, OPTIONS)
        self._shown_url = shown_url
        self._bound = bound
        self._patience = patience
        self._prepared = _is_on(options, "prepared_statements")
        self._connections = Connections(
            self._url,
            connections,
            seconds=WORKER_SECONDS + LATE,
            settings="; ".join(_assignments("SET", SESSION | ISOLATION)),
        )
        # Jobs may keep theirs for any time, and must not make heartbeats wait for a connection.
        self._sessions = Connections(self._url, SESSIONS, seconds=None)
        self._listening: asyncio.Task[None] | None = None

    @property
    def library(self) -> str:
        return "PostgreSQL"

    @property
    def newest_schema(self) -> int:
        return sql.migrations(__package__)[-1][0]

    async def open(self) -> PostgresDatabase:
        try:
            async with self._connections.lend():
                pass
        except (*LOST, asyncpg.PostgresError) as error:
            raise self._unreachable(error) from None
        except (ValueError, OverflowError):  # its message may contain a part of the password
            raise UsageError(
                f"the ledger's URL `{self._shown_url}` cannot be read",
                hint=HINT,
            ) from None
        return self

    async def transact(
        self,
        body: Body[T],
        *,
        write: bool = True,
        within: float = WORKER_SECONDS,
        for_rows: float | None = None,
        atomic: bool = True,
    ) -> T:
        scope = Scope(write, within, for_rows, atomic)
        started = time.monotonic()
        pause = 0.05
        again = False
        while True:
            try:
                async with self._connections.lend() as connection, scope.enter(connection):
                    return await body(
                        PostgresTransaction(
                            connection, self._bound, prepared=self._prepared, again=again
                        )
                    )
            except POOLED:
                self._prepared = False
            except asyncpg.LockNotAvailableError as error:
                raise self._busy(error) from error
            except LOST as error:
                if time.monotonic() - started + pause > self._patience:
                    raise self._unreachable(error) from error
            except UNABLE as error:
                raise self._unreachable(error) from error
            except asyncpg.PostgresError as error:
                raise self._refused(error) from error
            await asyncio.sleep(pause)
            pause = min(pause * 2, 1.0)
            again = True

    @asynccontextmanager
    async def session(self, limit: float | None = None) -> AsyncIterator[LedgerTransaction]:
        theirs: BaseException | None = None  # an error that the job raised is passed on unchanged
        try:
            async with self._sessions.lend() as connection:
                try:
                    async with connection.transaction(BEGIN_SESSION):
                        tx = SessionTransaction(connection, self._bound, self._unreachable)
                        try:
                            yield tx
                        except BaseException as error:
                            theirs = error
                            raise
                        finally:
                            tx.end()
                finally:
                    await connection.reset()
        except (*LOST, *UNABLE) as error:
            if error is theirs:
                raise
            raise self._unreachable(error) from error

    async def schema_version(self) -> int | None:
        return await self.transact(_schema_version, write=False)

    async def migrate(self) -> None:
        await self.transact(_migrate, within=PERSON_SECONDS)

    async def integrity_problems(self) -> list[str]:
        return []

    async def notify(self) -> None:
        with contextlib.suppress(*LOST, *UNABLE):
            async with self._connections.lend() as connection:
                await connection.raw.execute(f"NOTIFY {CHANNEL}")

    def on_notify(self, wake: Callable[[], None]) -> None:
        self._listening = asyncio.create_task(listen(self._url, wake), name="gapless-listen")

    async def close(self) -> None:
        if self._listening is not None:
            self._listening.cancel()
            await asyncio.wait([self._listening])
        for connections in (self._sessions, self._connections):
            with contextlib.suppress(*LOST):
                await connections.close()

    def _unreachable(self, error: Exception) -> LedgerUnreachable:
        trouble = "cannot serve" if isinstance(error, UNABLE) else "does not answer"
        return LedgerUnreachable(
            f"the ledger `{self._shown_url}` {trouble}: {self._said(error)}",
            hint=failures.hint(error),
        )

    def _busy(self, error: Exception) -> LedgerBusy:
        return LedgerBusy(
            f"rows of the ledger `{self._shown_url}` are locked: {self._said(error)}",
            hint="`SELECT * FROM pg_stat_activity` shows whose transactions are open",
        )

    def _refused(self, error: Exception) -> LedgerError:
        return LedgerError(
            f"the ledger `{self._shown_url}` refused a statement: {self._said(error)}",
            remedy=CheckLedger(),
        )

    def _said(self, error: Exception) -> str:
        return f"{type(error).__name__}: {error}".replace(self._url, self._shown_url)


def _assignments(command: str, settings: Mapping[str, str]) -> list[str]:
    return [f"{command} {name} = {value}" for name, value in settings.items()]


async def _migrate(transaction: LedgerTransaction) -> None:
    assert isinstance(transaction, PostgresTransaction)
    await transaction.execute("SELECT pg_advisory_xact_lock(:key)", key=MIGRATION_LOCK)
    done = await _schema_version(transaction) or 0
    for number, script in sql.migrations(__package__):
        if number > done:
            await transaction.script(script)
            await transaction.execute(
                "UPDATE gapless.schema_version SET version = :number", number=number
            )


async def _schema_version(transaction: LedgerTransaction) -> int | None:
    # Read the catalog: `to_regclass` alone may answer from a cache that is older than this lock.
    found = await transaction.execute(
        "SELECT 1 FROM pg_catalog.pg_tables"
        " WHERE schemaname = 'gapless' AND tablename = 'schema_version'"
    )
    if not found:
        return None
    (row,) = await transaction.execute("SELECT version FROM gapless.schema_version")
    version: int = row[0]
    return version


def _is_on(options: dict[str, str], name: str) -> bool:
    value = options.get(name, "on")
    if value not in ("on", "off"):
        raise UsageError(f"the ledger's option `{name}` is `on` or `off`, not `{value}`")
    return value == "on"
