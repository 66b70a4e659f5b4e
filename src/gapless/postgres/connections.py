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
import socket
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
from asyncpg.prepared_stmt import PreparedStatement

from gapless.postgres.failures import FAILURES, UNABLE

IDLE_SECONDS = 300.0  # proxies and firewalls tend to forget what is idle for longer
CLOSING_SECONDS = 3.0
ROLLBACK_SECONDS = 2.0  # then the connection is given up, which takes everything back too
CONNECTING_SECONDS = 10.0
SILENT_SECONDS = 20  # after which the peer of a connection counts as gone


class Connection:
    """One connection; nobody else uses it while it is lent."""

    def __init__(self, raw: asyncpg.Connection) -> None:
        self.raw = raw
        self.clean = True
        self.idle_since = 0.0
        self._seconds: float | None = None
        self._silent = False
        self._prepared: dict[str, PreparedStatement] = {}

    async def fetch(self, text: str, values: Sequence[Any], *, prepared: bool) -> list[Any]:
        with self._noticing_silence():
            if not prepared:
                return await self.raw.fetch(text, *values, timeout=self._seconds)
            statement = self._prepared.get(text)
            if statement is None:
                name = "gapless_" + hashlib.sha256(text.encode()).hexdigest()[:24]
                statement = await self.raw.prepare(text, name=name, timeout=self._seconds)
                self._prepared[text] = statement
            return await statement.fetch(*values, timeout=self._seconds)

    async def execute(self, text: str) -> None:
        """Runs statements that return nothing, several at once if need be."""
        with self._noticing_silence():
            await self.raw.execute(text, timeout=self._seconds)

    @asynccontextmanager
    async def transaction(self, begin: str, seconds: float | None = None) -> AsyncIterator[None]:
        """A transaction in which no command waits longer for its answer than that."""
        self._seconds = seconds
        await self.execute(begin)
        try:
            yield
        except asyncpg.InvalidCachedStatementError:
            raise  # a migration has changed a table: what is prepared here is of no more use
        except UNABLE:
            raise  # a session keeps its settings and its server: a new one may be better off
        except BaseException:
            if not self._silent:  # whoever does not answer would not answer to this either
                with contextlib.suppress(*FAILURES):
                    async with asyncio.timeout(ROLLBACK_SECONDS):
                        await self.execute("ROLLBACK")
                    self.clean = True
            raise
        await self.execute("COMMIT")
        self.clean = True

    @contextlib.contextmanager
    def _noticing_silence(self) -> Iterator[None]:
        try:
            yield
        except TimeoutError:
            self._silent = True
            raise

    async def forget(self) -> None:
        """Undoes whatever a stranger's SQL may have left behind in the session."""
        if self.clean:
            self.clean = False
            await self.raw.reset()
            self.clean = True


class Connections:
    """At most `limit` connections, opened when needed; the last one used is lent first.

    A command waits `seconds` for its answer, unless its transaction says otherwise; None stands for
    any time.
    """

    def __init__(self, url: str, limit: int, *, seconds: float | None = 60.0) -> None:
        self._url = url
        self._seconds = seconds
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
        connection = Connection(await connect(self._url, self._seconds))
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


async def connect(url: str, seconds: float | None) -> asyncpg.Connection:
    """A connection that notices when its peer is gone, also while it waits for nothing."""
    raw = await asyncpg.connect(
        url,
        timeout=min(CONNECTING_SECONDS, seconds or CONNECTING_SECONDS),
        command_timeout=seconds,
        statement_cache_size=0,
    )
    _keep_alive(raw)
    return raw


def _keep_alive(raw: Any) -> None:
    """Has the system probe a silent peer, and end the connection if it never answers."""
    peer = raw._transport.get_extra_info("socket")  # asyncpg has no word for it
    if peer.family not in (socket.AF_INET, socket.AF_INET6):
        return
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (
        ("TCP_KEEPIDLE", SILENT_SECONDS // 2),
        ("TCP_KEEPINTVL", SILENT_SECONDS // 4),
        ("TCP_KEEPCNT", 2),
        ("TCP_USER_TIMEOUT", SILENT_SECONDS * 1000),
    ):
        if (option := getattr(socket, name, None)) is not None:  # not every system has them all
            peer.setsockopt(socket.IPPROTO_TCP, option, value)
