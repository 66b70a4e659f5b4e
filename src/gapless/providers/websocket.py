"""A WebSocket to a provider, on which it announces new blocks.

Its HTTP client is slow to import, so this module is imported only when a WebSocket is opened.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp

from gapless.providers.failures import connection_failure
from gapless.providers.transport import Socket, Timeouts, TransportFailure

_HEADERS = {"User-Agent": "gapless"}
_CLOSE_PATIENCE = 1.0  # seconds that a WebSocket waits for the provider's consent to close it


@asynccontextmanager
async def opened(url: str, timeouts: Timeouts) -> AsyncIterator[Socket]:
    """Open a WebSocket, and close it on exit."""
    connector = aiohttp.TCPConnector(limit=0, force_close=True)
    async with aiohttp.ClientSession(connector=connector, headers=_HEADERS) as session:
        socket = await _connected(session, url, timeouts)
        try:
            yield _ClientSocket(socket)
        finally:
            await socket.close()


async def _connected(
    session: aiohttp.ClientSession, url: str, timeouts: Timeouts
) -> aiohttp.ClientWebSocketResponse:
    patience = aiohttp.ClientWSTimeout(ws_close=_CLOSE_PATIENCE)
    try:
        async with asyncio.timeout(timeouts.connect + timeouts.read):
            return await session.ws_connect(url, timeout=patience)
    except TimeoutError:
        failure = TransportFailure("no answer in time", slow=True)
    except aiohttp.WSServerHandshakeError as error:
        failure = TransportFailure(
            f"no WebSocket at this URL (HTTP {error.status})",
            hint="Is this the WebSocket URL of the endpoint, and its API key still valid?",
        )
    except (aiohttp.ClientError, OSError, ValueError) as error:
        failure = _trouble(error)
    raise failure  # not in a handler: its context would be the client's error, with the URL


class _ClientSocket:
    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket

    async def send(self, message: bytes) -> None:
        try:
            return await self._socket.send_str(message.decode())
        except (aiohttp.ClientError, OSError):
            failure = TransportFailure("the connection was lost")
        raise failure

    async def receive(self) -> bytes:
        message = await self._socket.receive()
        match message.type:
            case aiohttp.WSMsgType.TEXT:
                return str(message.data).encode()
            case aiohttp.WSMsgType.BINARY:
                return bytes(message.data)
        raise TransportFailure("the connection was lost")


def _trouble(error: Exception) -> TransportFailure:
    match error:
        case aiohttp.ClientConnectorError():
            return connection_failure(error.os_error)
        case ValueError():
            return TransportFailure("invalid URL", hint="Is the URL complete?")
    return TransportFailure("the connection was lost")
