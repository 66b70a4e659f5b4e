"""Transactions on PostgreSQL, and the settings that each of them makes.

Every transaction has timeouts, shorter than any lease: a process that is suspended in a
transaction loses its locks instead of hiding rows from everyone else, and a server that stops
answering costs seconds. Every commit is on disk before it is acknowledged, whatever the server's
default is, because no fence may ever be used twice.

Nothing depends on the session, which a proxy may share among its clients, whether it looks direct
or not. So every transaction makes its own settings, in the message that begins it.

Plans are forced. Each statement is written for one plan, by index, which is right for a table of
any size; the planner may only know that the table was small when it was last analyzed.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeVar

import asyncpg

from gapless.core.errors import BadJob, LedgerUnreachable
from gapless.ledger import sql
from gapless.ledger.database import OVER, OVER_HINT, Row, named
from gapless.ledger.postgres.statements import NUMBERED, STATEMENTS
from gapless.postgres.connections import Connection
from gapless.postgres.failures import LOST, SERVER_WIDE

T = TypeVar("T")

# After waiting for a lock, reads must see the latest commit, whatever the database's default is.
WRITING = "ISOLATION LEVEL READ COMMITTED"
# All reads see one snapshot, as on SQLite: a check must not see half of another transaction.
READING = "ISOLATION LEVEL REPEATABLE READ, READ ONLY"
SETTINGS = {
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
    f"BEGIN {WRITING}; SET LOCAL synchronous_commit = on; SET LOCAL statement_timeout = 0;"
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


@dataclass(frozen=True)
class Scope:
    """How a body is run; see `Database.transact`."""

    write: bool
    within: float
    for_rows: float | None = None

    def enter(self, connection: Connection) -> AbstractAsyncContextManager[None]:
        return connection.transaction(begin(self), self.longest)

    @property
    def longest(self) -> float:
        """How many seconds a command may wait for its answer."""
        return self.within + LATE


def begin(scope: Scope) -> str:
    """The message that begins a transaction."""
    return f"BEGIN {WRITING if scope.write else READING}; {settings(scope)}"


@lru_cache(maxsize=64)
def settings(scope: Scope) -> str:
    """The settings of a transaction in which no statement takes longer than `within` seconds."""
    lock = min(scope.within / 2, LONGEST_LOCK) if scope.for_rows is None else scope.for_rows
    timeouts = {
        "statement_timeout": str(round(scope.within * 1000)),
        "lock_timeout": str(round(lock * 1000)),
        "idle_in_transaction_session_timeout": "'10s'",
    }
    return "; ".join(f"SET LOCAL {name} = {value}" for name, value in (SETTINGS | timeouts).items())


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
        return named(kind, tuple(rows[0].keys()), rows) if rows else []

    async def count(self, statement: str, **parameters: Any) -> int:
        return len(await self.fetch(statement, **parameters))

    async def execute(self, text: str, **parameters: Any) -> list[Row]:
        statement = sql.Statement.parse(text)
        values = statement.values(parameters)
        return await self._connection.fetch(statement.numbered(), values, prepared=False)

    async def script(self, text: str) -> None:
        await self._connection.execute(text)

    def release_early(self) -> None:
        self._connection.commit = COMMIT_EARLY


class PostgresStatements(PostgresTransaction):
    """Statements that are a transaction each."""

    def __init__(
        self,
        connection: Connection,
        bound: Callable[[], dict[str, Any]],
        scope: Scope,
        *,
        prepared: bool,
        again: bool,
    ) -> None:
        super().__init__(connection, bound, prepared=prepared, again=again)
        self._scope = scope

    async def fetch(self, statement: str, **parameters: Any) -> list[Row]:
        async with self._scope.enter(self._connection):
            return await super().fetch(statement, **parameters)

    async def execute(self, text: str, **parameters: Any) -> list[Row]:
        async with self._scope.enter(self._connection):
            return await super().execute(text, **parameters)

    async def count(self, statement: str, **parameters: Any) -> int:
        text, connection = NUMBERED[statement], self._connection
        if not (self._prepared and connection.has_prepared(text) and await connection.is_direct()):
            return await super().count(statement, **parameters)
        return await connection.count(
            text,
            STATEMENTS[statement].values({**self._bound(), **parameters}),
            settings=f"SET TRANSACTION {WRITING}; {settings(self._scope)}",
            seconds=self._scope.longest,
        )


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
