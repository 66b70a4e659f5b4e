"""PostgreSQL as the ledger's database.

Every transaction sets its own timeouts, below any lease: a process that is stopped in the middle
of one loses its locks instead of hiding rows from everyone else. Nothing depends on the session,
so a proxy that pools transactions may stand in between. A lost connection is tried again for a
while: every body is idempotent.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import asyncpg

from gapless.core.errors import LedgerUnreachable
from gapless.ledger import sql
from gapless.ledger.database import Body, Row, Transaction

T = TypeVar("T")

STATEMENTS = sql.load(
    __package__,
    now="coalesce(:now::float8, extract(epoch FROM statement_timestamp())::float8)",
)
NUMBERED = {name: statement.numbered() for name, statement in STATEMENTS.items()}
BEGIN = (
    "BEGIN; SET LOCAL lock_timeout = '10s'; SET LOCAL idle_in_transaction_session_timeout = '15s'"
)
CHANNEL = "gapless"
MIGRATION_LOCK = 0x6761706C
LOST = (
    OSError,
    TimeoutError,
    asyncpg.InterfaceError,
    asyncpg.PostgresConnectionError,
    asyncpg.OperatorInterventionError,  # shutdown, crash recovery
    asyncpg.TransactionRollbackError,  # deadlock
    asyncpg.LockNotAvailableError,
    asyncpg.IdleInTransactionSessionTimeoutError,
    asyncpg.TooManyConnectionsError,
)


class PostgresTransaction:
    """Statements on one connection, within its open transaction."""

    def __init__(
        self,
        connection: asyncpg.pool.PoolConnectionProxy,
        bound: Callable[[], dict[str, Any]],
        again: bool = False,
    ) -> None:
        self.again = again
        self._connection = connection
        self._bound = bound

    async def fetch(self, statement: str, **parameters: Any) -> list[Row]:
        values = STATEMENTS[statement].values({**self._bound(), **parameters})
        return await self._connection.fetch(NUMBERED[statement], *values)

    async def execute(self, text: str, **parameters: Any) -> list[Row]:
        statement = sql.Statement.parse(text)
        return await self._connection.fetch(statement.numbered(), *statement.values(parameters))

    async def script(self, text: str) -> None:
        await self._connection.execute(text)


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
        self._url = url
        self._shown_url = shown_url
        self._bound = bound
        self._patience = patience
        self._connections = connections
        self._pool: asyncpg.Pool
        self._listening: asyncio.Task[None] | None = None

    @property
    def library(self) -> str:
        return "PostgreSQL"

    @property
    def newest_schema(self) -> int:
        return sql.migrations(__package__)[-1][0]

    async def open(self) -> PostgresDatabase:
        try:
            self._pool = await asyncpg.create_pool(
                self._url,
                min_size=0,
                max_size=self._connections,
                timeout=10,
                command_timeout=60,
                statement_cache_size=0,
            )
            await self._pool.fetchval("SELECT 1")
        except (*LOST, asyncpg.PostgresError, ValueError) as error:
            raise self._unreachable(error) from None
        return self

    async def transact(self, body: Body[T], *, write: bool = True) -> T:
        started = time.monotonic()
        pause = 0.05
        again = False
        while True:
            try:
                async with self._begun(again) as transaction:
                    return await body(transaction)
            except asyncpg.DataError:
                raise  # an InterfaceError by inheritance, but no lost connection
            except LOST as error:
                if time.monotonic() - started + pause > self._patience:
                    raise self._unreachable(error) from error
            await asyncio.sleep(pause)
            pause = min(pause * 2, 1.0)
            again = True

    @asynccontextmanager
    async def session(self) -> AsyncIterator[Transaction]:
        async with self._begun(again=False) as transaction:
            yield transaction

    @asynccontextmanager
    async def _begun(self, again: bool) -> AsyncIterator[PostgresTransaction]:
        async with self._pool.acquire() as connection:
            await connection.execute(BEGIN)
            try:
                yield PostgresTransaction(connection, self._bound, again)
            except BaseException:
                with contextlib.suppress(*LOST):
                    await connection.execute("ROLLBACK")
                raise
            await connection.execute("COMMIT")

    async def schema_version(self) -> int | None:
        async with self._pool.acquire() as connection:
            if await connection.fetchval("SELECT to_regclass('gapless.schema_version')") is None:
                return None
            version: int = await connection.fetchval("SELECT version FROM gapless.schema_version")
            return version

    async def migrate(self) -> None:
        async with self._begun(again=False) as transaction:
            await transaction.execute("SELECT pg_advisory_xact_lock(:key)", key=MIGRATION_LOCK)
            done = await self.schema_version() or 0
            for number, script in sql.migrations(__package__):
                if number > done:
                    await transaction.script(script)
                    await transaction.execute(
                        "UPDATE gapless.schema_version SET version = :number", number=number
                    )

    async def integrity_problems(self) -> list[str]:
        return []

    async def notify(self) -> None:
        with contextlib.suppress(*LOST):
            await self._pool.execute("SELECT pg_notify($1, '')", CHANNEL)

    def on_notify(self, wake: Callable[[], None]) -> None:
        self._listening = asyncio.create_task(self._listen(wake), name="gapless-listen")

    async def _listen(self, wake: Callable[[], None]) -> None:
        """Keeps a listening connection; without one, polling alone does the work."""
        while True:
            with contextlib.suppress(*LOST):
                connection = await asyncpg.connect(self._url, timeout=10)
                ended = asyncio.get_running_loop().create_future()
                connection.add_termination_listener(_resolves(ended))
                try:
                    await connection.add_listener(CHANNEL, lambda *_: wake())
                    await ended
                finally:
                    connection.terminate()
            await asyncio.sleep(5)

    async def close(self) -> None:
        if self._listening is not None:
            self._listening.cancel()
            await asyncio.wait([self._listening])
        try:
            await asyncio.wait_for(self._pool.close(), 5)
        except LOST:
            self._pool.terminate()

    def _unreachable(self, error: Exception) -> LedgerUnreachable:
        said = str(error).replace(self._url, self._shown_url)
        return LedgerUnreachable(
            f"the ledger `{self._shown_url}` does not answer: {type(error).__name__}: {said}",
            hint="check that PostgreSQL runs there and that the URL's user may connect",
        )


def _resolves(future: asyncio.Future[None]) -> Callable[..., None]:
    def resolve(*_: object) -> None:
        if not future.done():
            future.set_result(None)

    return resolve
