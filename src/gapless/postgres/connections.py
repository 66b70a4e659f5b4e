"""The connections of one process to PostgreSQL, and the statements prepared on them.

A prepared statement saves a round trip and the planning, at least half the time of a small
transaction. Its name is a hash of its text: with a transaction-pooling proxy every transaction may
use another server connection, on which another client may have prepared the name, and the hash
guarantees that it is the same statement. The remaining case is an error (the name does not exist,
or exists already); the first such error disables prepared statements permanently, and the
transaction is run again without them.

asyncpg's own pool cannot do this: it invalidates prepared statements when a connection is returned,
and its statement cache takes names from a counter, which collide behind such a proxy. It also
resets the session on every return. Small transactions are at least 1.5 times as fast here, and
twice as fast as without its cache (`python -m bench libraries`).
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import socket
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
from asyncpg.prepared_stmt import PreparedStatement

from gapless.lanes import Lane, LaneSemaphore, in_lane
from gapless.postgres.failures import FAILURES, UNABLE

COMMIT = "COMMIT"
IDLE_SECONDS = 300.0  # proxies and firewalls tend to drop connections that are idle for longer
CLOSING_SECONDS = 3.0
ROLLBACK_SECONDS = 2.0  # then the connection is closed, which rolls back too
CONNECTING_SECONDS = 10.0
SILENT_SECONDS = 20  # without an answer, until the peer of a connection counts as gone


class Connection:
    """One connection, used by one borrower at a time."""

    def __init__(self, raw: asyncpg.Connection, *, is_set: bool = False) -> None:
        self.raw = raw
        self.is_set = is_set  # whether its session has the settings of its owner
        self.clean = True
        self.idle_since = 0.0
        self._seconds: float | None = None
        self._silent = False
        self._prepared: dict[str, PreparedStatement] = {}

    async def fetch(self, text: str, values: Sequence[Any], *, prepared: bool) -> list[Any]:
        try:
            if not prepared:
                return await self.raw.fetch(text, *values, timeout=self._seconds)
            statement = self._prepared.get(text)
            if statement is None:
                name = "gapless_" + hashlib.sha256(text.encode()).hexdigest()[:24]
                statement = await self.raw.prepare(text, name=name, timeout=self._seconds)
                self._prepared[text] = statement
            return await statement.fetch(*values, timeout=self._seconds)
        except TimeoutError:
            self._silent = True
            raise

    async def execute(self, text: str) -> None:
        """Runs one or more statements that return nothing."""
        try:
            await self.raw.execute(text, timeout=self._seconds)
        except TimeoutError:
            self._silent = True
            raise

    @asynccontextmanager
    async def transaction(self, begin: str, seconds: float | None = None) -> AsyncIterator[None]:
        """A transaction in which no command waits longer than `seconds` for its answer."""
        self._seconds, self.commit = seconds, COMMIT
        await self.execute(begin)
        try:
            yield
        except asyncpg.InvalidCachedStatementError:
            raise  # a migration has changed a table: the prepared statements are useless
        except UNABLE:
            raise  # a session keeps its settings and its server: a new one may work
        except BaseException:
            if not self._silent:  # a server that does not answer would not answer this either
                with contextlib.suppress(*FAILURES):
                    async with asyncio.timeout(ROLLBACK_SECONDS):
                        await self.execute("ROLLBACK")
                    self.clean = True
            raise
        await self.execute(self.commit)
        self.clean = True

    @asynccontextmanager
    async def statements(self, seconds: float | None = None) -> AsyncIterator[None]:
        """Statements that commit one by one, each within `seconds`."""
        self._seconds = seconds
        try:
            yield
        except (asyncpg.InvalidCachedStatementError, *UNABLE):
            raise
        except asyncpg.PostgresError:
            self.clean = True
            raise

    async def reset(self) -> None:
        """Resets the session, which a job's own SQL may have changed."""
        if self.clean:
            self.clean = False
            await self.raw.reset()
            self.clean = True


class Connections:
    """At most `limit` connections, opened on demand; the most recently used is lent first.

    When all are lent, borrowers of the priority lane get the next one.

    A command waits `seconds` for its answer, unless its transaction sets another limit; None means
    no limit. A connection executes `settings` when it is opened, if its session is its own.
    """

    def __init__(
        self, url: str, limit: int, *, seconds: float | None = 60.0, settings: str | None = None
    ) -> None:
        self._url = url
        self._seconds = seconds
        self._settings = settings
        self._free = LaneSemaphore(limit)
        self._limit = limit
        self._idle: list[Connection] = []
        self._open: set[Connection] = set()

    @asynccontextmanager
    async def lend(self) -> AsyncIterator[Connection]:
        """Lends a connection that is in no transaction; closes it unless it is returned clean."""
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
                    self._close(connection)

    async def close(self) -> None:
        """Closes all connections, after those that are lent have been returned."""
        try:
            async with asyncio.timeout(CLOSING_SECONDS):
                with in_lane(Lane.ORDINARY):  # after all that wait
                    for _ in range(self._limit):
                        await self._free.acquire()
                while self._idle:
                    await self._idle[-1].raw.close()
                    self._open.discard(self._idle.pop())
        finally:
            for connection in list(self._open):
                self._close(connection)

    async def _new_one(self) -> Connection:
        raw = await connect(self._url, self._seconds)
        try:
            is_set = False
            if self._settings is not None and await _has_own_session(raw):
                await raw.execute(self._settings)
                is_set = True
        except BaseException:
            raw.terminate()
            raise
        connection = Connection(raw, is_set=is_set)
        self._open.add(connection)
        return connection

    async def _idle_one(self) -> Connection | None:
        while self._idle:
            connection = self._idle.pop()
            idle = time.monotonic() - connection.idle_since
            if idle < IDLE_SECONDS and not connection.raw.is_closed():
                return connection
            self._close(connection)
        return None

    def _close(self, connection: Connection) -> None:
        self._open.discard(connection)
        connection.raw.terminate()


async def connect(url: str, seconds: float | None) -> asyncpg.Connection:
    """A connection that notices when its peer is gone, even while it is idle."""
    raw = await asyncpg.connect(
        url,
        timeout=min(CONNECTING_SECONDS, seconds or CONNECTING_SECONDS),
        command_timeout=seconds,
        statement_cache_size=0,
    )
    _keep_alive(raw)
    return raw


async def _has_own_session(raw: asyncpg.Connection) -> bool:
    """Whether one session of the server serves this connection, and it alone.

    A proxy that pools sessions tells its clients a process id of its own invention.
    """
    found: int = await raw.fetchval("SELECT pg_backend_pid()")
    return found == raw.get_server_pid()


def _keep_alive(raw: Any) -> None:
    """Lets the system probe a silent peer, and close the connection if it does not answer."""
    peer = raw._transport.get_extra_info("socket")  # asyncpg has no public way
    if peer.family not in (socket.AF_INET, socket.AF_INET6):
        return
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (
        ("TCP_KEEPIDLE", SILENT_SECONDS // 2),
        ("TCP_KEEPINTVL", SILENT_SECONDS // 4),
        ("TCP_KEEPCNT", 2),
        ("TCP_USER_TIMEOUT", SILENT_SECONDS * 1000),
    ):
        if (option := getattr(socket, name, None)) is not None:  # not every system has all of them
            peer.setsockopt(socket.IPPROTO_TCP, option, value)
