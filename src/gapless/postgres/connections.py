"""The connections of one process to PostgreSQL, and the statements prepared on them.

A prepared statement saves a round trip and the planning, at least half the time of a small
transaction. Its name is a hash of its text: with a transaction-pooling proxy every transaction may
use another server connection, on which another client may have prepared the name, and the hash
guarantees that it is the same statement. The remaining case is an error (the name does not exist,
or exists already); the first such error disables prepared statements permanently, and the
transaction is run again without them. Nothing else depends on the session, either.

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

    def __init__(self, raw: asyncpg.Connection) -> None:
        self.raw = raw
        self.clean = True
        self.idle_since = 0.0
        self._seconds: float | None = None
        self._silent = False
        self._prepared: dict[str, PreparedStatement] = {}
        self._direct: bool | None = None

    async def is_direct(self) -> bool:
        """Whether no proxy seems to be between: the server has the process id that it has told.

        A proxy that pools sessions usually tells its clients a process id of its own invention. One
        that passes on the id of a server looks direct, so nothing but speed may depend on this.
        """
        if self._direct is None:
            found: int = await self.raw.fetchval("SELECT pg_backend_pid()")
            self._direct = found == self.raw.get_server_pid()
        return self._direct

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

    def has_prepared(self, text: str) -> bool:
        return text in self._prepared

    async def execute(self, text: str) -> str:
        """Runs one or more statements, and returns the status of the last one, not its rows."""
        try:
            return await self.raw.execute(text, timeout=self._seconds)
        except TimeoutError:
            self._silent = True
            raise

    async def count(
        self, text: str, values: Sequence[Any], *, settings: str, seconds: float | None = None
    ) -> int:
        """How many rows a prepared statement returns, in a transaction of its own.

        The settings and the statement are one message, which the server runs as one transaction.
        Such a message has no parameters, and its rows are not read.
        """
        self._seconds = seconds
        try:
            given = ", ".join(map(literal, values))
            name = self._prepared[text].get_name()
            status = await self.execute(f"{settings}; EXECUTE {name}({given})")
        except (asyncpg.InvalidCachedStatementError, *UNABLE):
            raise
        except asyncpg.PostgresError:
            self.clean = True
            raise
        return int(status.rpartition(" ")[2])

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
    no limit.
    """

    def __init__(self, url: str, limit: int, *, seconds: float | None = 60.0) -> None:
        self._url = url
        self._seconds = seconds
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
        connection = Connection(await connect(self._url, self._seconds))
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


def literal(value: Any) -> str:
    """A parameter as a literal, which gets its type from the statement that it is for."""
    if value is None:
        return "NULL"
    text = str(value).replace("\\", "\\\\").replace("'", "''")
    return f"E'{text}'"  # means the same whatever `standard_conforming_strings` is


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
