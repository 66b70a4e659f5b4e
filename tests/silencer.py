"""A proxy in front of a server whose connections stop answering when a test says so."""

from __future__ import annotations

import asyncio
import contextlib
from asyncio import StreamReader, StreamWriter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit


class Silencer:
    """Passes everything on, until it swallows all data; later connections may work again."""

    def __init__(self, host: str, port: int) -> None:
        self._host, self._port = host, port
        self._silenced: set[int] = set()
        self._connections = 0
        self.accepting = True
        self.url = ""

    def silence(self) -> None:
        """From now on, the open connections carry nothing."""
        self._silenced.update(range(1, self._connections + 1))

    async def serve(self, reader: StreamReader, writer: StreamWriter) -> None:
        self._connections += 1
        number = self._connections
        if not self.accepting:
            self._silenced.add(number)
        server_reader, server_writer = await asyncio.open_connection(self._host, self._port)
        try:
            await asyncio.gather(
                self._pass_on(number, reader, server_writer),
                self._pass_on(number, server_reader, writer),
            )
        finally:
            for each in (writer, server_writer):
                each.close()

    async def _pass_on(self, number: int, reader: StreamReader, writer: StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(1 << 16):
                if number not in self._silenced:
                    writer.write(data)
                    await writer.drain()
        writer.close()


@asynccontextmanager
async def silencer(url: str) -> AsyncIterator[Silencer]:
    """A proxy to the server of a URL; its own URL is in its `url`."""
    parts = urlsplit(url)
    assert parts.hostname is not None
    proxy = Silencer(parts.hostname, parts.port or 5432)
    serving: set[asyncio.Task[None]] = set()

    async def accept(reader: StreamReader, writer: StreamWriter) -> None:
        task = asyncio.create_task(proxy.serve(reader, writer))
        serving.add(task)
        task.add_done_callback(serving.discard)

    listener = await asyncio.start_server(accept, "127.0.0.1", 0)
    port = listener.sockets[0].getsockname()[1]
    proxy.url = parts._replace(netloc=f"{parts.username}@127.0.0.1:{port}").geturl()
    try:
        yield proxy
    finally:
        listener.close()
        for task in list(serving):
            task.cancel()
        await asyncio.gather(*serving, return_exceptions=True)
