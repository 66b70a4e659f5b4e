"""A proxy in front of PostgreSQL that pools transactions, like PgBouncer in that mode.

A client's messages go to any of the server's connections and stay there until the server reports
that no transaction is open; the next time it may be another connection. Nothing in a client's
session can be relied on: neither its settings nor the statements that it prepared.

Like PgBouncer, it tells clients a key that no server knows, since they may not cancel what others
do. A proxy may also pass on the key of one of its connections, which then looks like a direct one.
"""

from __future__ import annotations

import asyncio
import contextlib
from asyncio import StreamReader, StreamWriter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from urllib.parse import urlsplit

_READY = ord("Z")
_ASKS = (ord("S"), ord("Q"))  # sync, query: the server answers with `ready`
_TERMINATE = ord("X")
_KEY = ord("K")
_NO_TRANSACTION = b"I"
_PROTOCOL = (196608).to_bytes(4, "big")
_ENCRYPTION = (80877103).to_bytes(4, "big")


@dataclass
class _Server:
    reader: StreamReader
    writer: StreamWriter
    greeting: bytes


@asynccontextmanager
async def pooler(url: str, size: int = 3, *, passes_key: bool = False) -> AsyncIterator[str]:
    """The URL of a proxy to the server of another URL, with this many connections to it."""
    parts = urlsplit(url)
    assert parts.hostname is not None
    host, port, user = parts.hostname, parts.port or 5432, parts.username or ""
    servers = [
        await _connect(host, port, user, parts.path[1:], passes_key=passes_key) for _ in range(size)
    ]
    free: asyncio.Queue[_Server] = asyncio.Queue()
    for server in servers:
        free.put_nowait(server)
    clients: set[asyncio.Task[None]] = set()

    async def accept(reader: StreamReader, writer: StreamWriter) -> None:
        client = asyncio.create_task(_Client(reader, writer, free).serve(servers[0].greeting))
        clients.add(client)
        await asyncio.wait([client])
        clients.discard(client)
        writer.close()

    listener = await asyncio.start_server(accept, "127.0.0.1", 0)
    port = listener.sockets[0].getsockname()[1]
    try:
        yield parts._replace(netloc=f"{parts.username}@127.0.0.1:{port}").geturl()
    finally:
        listener.close()
        while clients:  # they end by themselves, since their client is gone
            await asyncio.wait(clients)
        for server in servers:
            server.writer.close()


async def _connect(host: str, port: int, user: str, database: str, *, passes_key: bool) -> _Server:
    reader, writer = await asyncio.open_connection(host, port)
    body = b"".join(f"{each}\0".encode() for each in ("user", user, "database", database)) + b"\0"
    writer.write((len(body) + 8).to_bytes(4, "big") + _PROTOCOL + body)
    greeting = b""
    while True:
        message = await _message(reader)
        if message[0] == _KEY and not passes_key:
            message = message[:5] + bytes(len(message) - 5)
        greeting += message
        if message[0] == _READY:
            return _Server(reader, writer, greeting)


class _Client:
    def __init__(
        self, reader: StreamReader, writer: StreamWriter, free: asyncio.Queue[_Server]
    ) -> None:
        self._reader, self._writer, self._free = reader, writer, free
        self._server: _Server | None = None
        self._unanswered = 0
        self._relay: asyncio.Task[None] | None = None

    async def serve(self, greeting: bytes) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):  # without a goodbye
            while await self._startup() == _ENCRYPTION:
                self._writer.write(b"N")
            self._writer.write(greeting)
            while (message := await _message(self._reader))[0] != _TERMINATE:
                if self._server is None:
                    self._server = await self._free.get()
                    self._relay = asyncio.create_task(self._answer(self._server))
                self._unanswered += message[0] in _ASKS
                self._server.writer.write(message)
        if self._relay is not None:
            await asyncio.wait([self._relay])

    async def _startup(self) -> bytes:
        length = int.from_bytes(await self._reader.readexactly(4), "big")
        return (await self._reader.readexactly(length - 4))[:4]

    async def _answer(self, server: _Server) -> None:
        """Passes on the server's messages until no transaction is open: then anyone may use it."""
        while True:
            message = await _message(server.reader)
            self._writer.write(message)
            if message[0] == _READY:
                self._unanswered -= 1
                if message[5:] == _NO_TRANSACTION and not self._unanswered:
                    self._server = None
                    self._free.put_nowait(server)
                    return


async def _message(reader: StreamReader) -> bytes:
    head = await reader.readexactly(5)
    return head + await reader.readexactly(int.from_bytes(head[1:], "big") - 4)
