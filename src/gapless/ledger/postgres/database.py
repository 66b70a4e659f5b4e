"""PostgreSQL as the ledger's database.

Every transaction sets its own timeouts, shorter than any lease: a process that is suspended in a
transaction loses its locks instead of hiding rows from everyone else, and a server that stops
answering costs seconds. Every commit is on disk before it is acknowledged, whatever the server's
default is, because no fence may ever be used twice. Nothing depends on the session, so a
transaction-pooling proxy may be used; `?prepared_statements=off` in the URL avoids the error from
which `postgres.connections` would otherwise detect one. Lost connections are retried for a while,
which is safe because every body is idempotent.

Plans are forced. Each statement is written for one plan, by index, which is right for a table of
any size; the planner may only know that the table was small when it was last analyzed.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
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
FORCED = (
    "SET LOCAL plan_cache_mode = force_generic_plan; SET LOCAL jit = off;"
    " SET LOCAL enable_seqscan = off; SET LOCAL enable_bitmapscan = off;"
    " SET LOCAL enable_sort = off;"
    " SET LOCAL enable_hashjoin = off; SET LOCAL enable_mergejoin = off"
)
# After waiting for a lock, reads must see the latest commit, whatever the database's default is.
BEGIN = "BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL synchronous_commit = on"
# A job's own SQL has no time limit: it has locked the chunk's row, which protects its lease.
BEGIN_SESSION = (
    f"{BEGIN}; SET LOCAL statement_timeout = 0; SET LOCAL lock_timeout = '10s';"
    " SET LOCAL idle_in_transaction_session_timeout = '15s'"
)
BEGIN_WRITING = f"{BEGIN}; {FORCED}"
# All reads see one snapshot, as on SQLite: a check must not see half of another transaction.
BEGIN_READING = f"BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY; {FORCED}"
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
        self._connections = Connections(self._url, connections, seconds=WORKER_SECONDS + LATE)
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
    ) -> T:
        begin = BEGIN_WRITING if write else BEGIN_READING
        begin = f"{begin}; {timeouts(within, for_rows)}"
        started = time.monotonic()
        pause = 0.05
        again = False
        while True:
            try:
                async with (
                    self._connections.lend() as connection,
                    connection.transaction(begin, within + LATE),
                ):
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


def timeouts(within: float, for_rows: float | None = None) -> str:
    """The settings of a transaction in which no statement takes longer than `within` seconds."""
    lock = min(within / 2, LONGEST_LOCK) if for_rows is None else for_rows
    return (
        f"SET LOCAL statement_timeout = {round(within * 1000)};"
        f" SET LOCAL lock_timeout = {round(lock * 1000)};"
        " SET LOCAL idle_in_transaction_session_timeout = '10s'"
    )


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
