"""The connections of one process to PostgreSQL, and the statements prepared on them.

A prepared statement saves a round trip and the planning, half the time of a small transaction or
more. Its name is a hash of its text. Behind a proxy that pools transactions, the connection may be
another one every time, and a name may have been given there by someone else: so named, it can only
ever mean the same statement. What remains is an error (the name is missing, or given already); the
first one turns prepared statements off for good, and the transaction is run again without.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
from asyncpg.prepared_stmt import PreparedStatement

IDLE_SECONDS = 300.0  # proxies and firewalls tend to forget what is idle for longer
CLOSING_SECONDS = 5.0
LOST = (
    OSError,
    TimeoutError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,  # the end came while the connection was idle
    asyncpg.PostgresConnectionError,
    asyncpg.OperatorInterventionError,  # shutdown, crash recovery
    asyncpg.TransactionRollbackError,  # deadlock
    asyncpg.LockNotAvailableError,
    asyncpg.IdleInTransactionSessionTimeoutError,
    asyncpg.TooManyConnectionsError,
    asyncpg.InvalidCachedStatementError,  # a migration happened
)
"""What another try may mend: the transaction has not happened, or nobody says whether it has."""

POOLED = (asyncpg.InvalidSQLStatementNameError, asyncpg.DuplicatePreparedStatementError)
"""What a prepared statement may meet behind a proxy that pools transactions."""

FAILURES = (
    OSError,
    asyncpg.PostgresError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
)


class Connection:
    """One connection; nobody else uses it while it is lent."""

    def __init__(self, raw: asyncpg.Connection) -> None:
        self.raw = raw
        self.clean = True
        self.idle_since = 0.0
        self._prepared: dict[str, PreparedStatement] = {}

    async def fetch(self, text: str, values: Sequence[Any], *, prepared: bool) -> list[Any]:
        if not prepared:
            return await self.raw.fetch(text, *values)
        statement = self._prepared.get(text)
        if statement is None:
            name = "gapless_" + hashlib.sha256(text.encode()).hexdigest()[:24]
            statement = self._prepared[text] = await self.raw.prepare(text, name=name)
        return await statement.fetch(*values)

    @asynccontextmanager
    async def transaction(self, begin: str) -> AsyncIterator[None]:
        await self.raw.execute(begin)
        try:
            yield
        except asyncpg.InvalidCachedStatementError:
            raise  # a migration has changed a table: what is prepared here is of no more use
        except BaseException:
            with contextlib.suppress(*FAILURES):
                await self.raw.execute("ROLLBACK")
                self.clean = True
            raise
        await self.raw.execute("COMMIT")
        self.clean = True

    async def forget(self) -> None:
        """Undoes whatever a stranger's SQL may have left behind in the session."""
        if self.clean:
            self.clean = False
            await self.raw.reset()
            self.clean = True


class Connections:
    """At most `limit` connections, opened when needed; the last one used is lent first."""

    def __init__(self, url: str, limit: int) -> None:
        self._url = url
        self._free = asyncio.Semaphore(limit)
        self._limit = limit
        self._idle: list[Connection] = []
        self._open: set[Connection] = set()

    @asynccontextmanager
    async def lend(self) -> AsyncIterator[Connection]:
        """A connection outside any transaction; it is given up unless it comes back clean."""
        async with self._free:
            connection = await self._idle_one() or await self._new_one()
            connection.clean = False
            try:
                yield connection
                connection.clean = True
            finally:
                if connection.clean:
                    connection.idle_since = time.monotonic()
                    self._idle.append(connection)
                else:
                    self._give_up(connection)

    async def close(self) -> None:
        """Closes all connections, once those that are lent have come back."""
        try:
            async with asyncio.timeout(CLOSING_SECONDS):
                for _ in range(self._limit):
                    await self._free.acquire()
                while self._idle:
                    await self._idle[-1].raw.close()
                    self._open.discard(self._idle.pop())
        finally:
            for connection in list(self._open):
                self._give_up(connection)

    async def _new_one(self) -> Connection:
        raw = await asyncpg.connect(
            self._url, timeout=10, command_timeout=60, statement_cache_size=0
        )
        connection = Connection(raw)
        self._open.add(connection)
        return connection

    async def _idle_one(self) -> Connection | None:
        while self._idle:
            connection = self._idle.pop()
            idle = time.monotonic() - connection.idle_since
            if idle < IDLE_SECONDS and not connection.raw.is_closed():
                return connection
            self._give_up(connection)
        return None

    def _give_up(self, connection: Connection) -> None:
        self._open.discard(connection)
        connection.raw.terminate()
