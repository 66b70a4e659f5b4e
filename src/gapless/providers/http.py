"""Send bytes to a provider and receive its answer, over persistent connections or a WebSocket.

Every failure is a `TransportFailure` whose message does not contain the URL. Bodies are
decompressed by isal, off the event loop and twice as fast as by the HTTP client. An endless body,
compressed or not, is abandoned before it fills the memory.
"""

from __future__ import annotations

import asyncio
import errno
import os
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from types import TracebackType
from typing import NamedTuple, Protocol, Self
from urllib.parse import urlsplit

import aiohttp
from isal import isal_zlib

_HEADERS = {
    "Accept-Encoding": "gzip",
    "Content-Type": "application/json",
    "User-Agent": "gapless",
}
MOST_BYTES = 512 << 20  # of a body; the largest known block has 21 MB of receipts
_GZIP = 31  # window bits that select gzip
_CALLS_PER_READ = 100  # a batch of this size gets twice the time
_TLS_PATIENCE = 1.0  # seconds
_CLOSE_PATIENCE = 1.0  # seconds that a WebSocket waits for the provider's consent to close it
_TOO_LARGE = f"the answer is larger than {MOST_BYTES >> 20} MiB"


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Seconds for the connection, and for the answer to one call."""

    connect: float = 5.0
    read: float = 30.0


class TransportFailure(Exception):
    """No answer or an incomplete one, because of the connection or the node."""

    def __init__(
        self, message: str, *, slow: bool = False, sent: bool = True, hint: str = ""
    ) -> None:
        super().__init__(message)
        self.slow = slow  # there was no answer in time
        self.sent = sent  # a connection was made, so the size of the request may be the cause
        self.hint = hint  # the likely cause, if a retry in the near future will fail as well


class Response(NamedTuple):
    """An HTTP response with its body still compressed."""

    status: int
    body: bytes
    encoding: str
    retry_after: float | None


class Socket(Protocol):
    """An open WebSocket."""

    async def send(self, message: bytes) -> None:
        """Send a message; raise `TransportFailure` if the connection is lost."""

    async def receive(self) -> bytes:
        """Return the next message; raise `TransportFailure` if the connection is lost."""


class Http:
    """The connections of one pool."""

    def __init__(self, timeouts: Timeouts) -> None:
        self._timeouts = timeouts
        self._kept = self._session(force_close=False)
        self._fresh = self._session(force_close=True)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._kept.close()
        await self._fresh.close()

    async def post(
        self, url: str, body: bytes, *, headers: Mapping[str, str], calls: int, fresh: bool
    ) -> Response:
        """Send a request and return the response; `fresh` uses a new connection."""
        timeout = aiohttp.ClientTimeout(
            total=self._timeouts.connect + self._timeouts.read * (1 + calls / _CALLS_PER_READ),
            sock_connect=self._timeouts.connect,
        )
        session = self._fresh if fresh else self._kept
        try:
            async with session.post(
                url, data=body, headers=headers, timeout=timeout, allow_redirects=False
            ) as response:
                packed = await _read(response.content)
        except TimeoutError as error:
            raise TransportFailure("no answer in time", slow=True) from error
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise _trouble(error) from error
        encoding = response.headers.get("Content-Encoding", "").lower()
        return Response(response.status, packed, encoding, _retry_after(response.headers))

    @asynccontextmanager
    async def socket(self, url: str) -> AsyncIterator[Socket]:
        """Open a WebSocket, and close it on exit."""
        socket = await self._connected(url)
        try:
            yield _ClientSocket(socket)
        finally:
            await socket.close()

    async def _connected(self, url: str) -> aiohttp.ClientWebSocketResponse:
        patience = aiohttp.ClientWSTimeout(ws_close=_CLOSE_PATIENCE)
        try:
            async with asyncio.timeout(self._timeouts.connect + self._timeouts.read):
                return await self._fresh.ws_connect(url, timeout=patience)
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

    async def speaks_tls(self, url: str) -> bool:
        """Whether the port of an `http://` URL accepts TLS; no request is sent over it."""
        parts = urlsplit(url)
        if parts.scheme != "http" or parts.hostname is None:
            return False
        unverified = ssl.create_default_context()
        unverified.check_hostname, unverified.verify_mode = False, ssl.CERT_NONE
        port = parts.port or 80
        try:
            async with asyncio.timeout(_TLS_PATIENCE):
                _, writer = await asyncio.open_connection(parts.hostname, port, ssl=unverified)
        except (OSError, TimeoutError):
            return False
        writer.close()
        return True

    def _session(self, *, force_close: bool) -> aiohttp.ClientSession:
        connector = aiohttp.TCPConnector(limit=0, force_close=force_close)
        return aiohttp.ClientSession(connector=connector, auto_decompress=False, headers=_HEADERS)


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


def decompressed(response: Response) -> bytes:
    """Return the decompressed body."""
    if response.encoding in ("", "identity"):
        return response.body
    if response.encoding != "gzip":
        raise TransportFailure("the answer has an unsupported content encoding")
    try:
        return _gunzip(response.body)
    except isal_zlib.error as error:  # type: ignore[misc]
        raise TransportFailure("the answer is damaged") from error


async def _read(stream: aiohttp.StreamReader) -> bytes:
    pieces: list[bytes] = []
    size = 0
    async for piece in stream.iter_any():
        pieces.append(piece)
        size += len(piece)
        if size > MOST_BYTES:
            raise TransportFailure(_TOO_LARGE)
    return b"".join(pieces)


def _gunzip(packed: bytes) -> bytes:
    """Decompress one or more gzip members."""
    pieces: list[bytes] = []
    left = MOST_BYTES + 1
    while packed:
        member = isal_zlib.decompressobj(wbits=_GZIP)
        pieces.append(member.decompress(packed, left))
        left -= len(pieces[-1])
        if left <= 0:
            raise TransportFailure(_TOO_LARGE)
        if not member.eof:
            raise TransportFailure("the answer is damaged")
        packed = member.unused_data
    return b"".join(pieces)


def _trouble(error: Exception) -> TransportFailure:
    """Describe an error by its kind: the client's own message may contain the URL."""
    match error:
        case aiohttp.ClientConnectorDNSError():
            return TransportFailure("unknown host", hint="Is the host name spelled correctly?")
        case aiohttp.ClientConnectorCertificateError():
            return TransportFailure(
                "invalid TLS certificate", hint="Is the certificate issued for this host name?"
            )
        case aiohttp.ClientSSLError():
            return TransportFailure("TLS handshake failed", hint="Does this port expect `http://`?")
        case ValueError():
            return TransportFailure("invalid URL", hint="Is the URL complete?")
        case aiohttp.ClientConnectorError(os_error=OSError(errno=int(number))):
            hint = "Is a node running at this address?" if number == errno.ECONNREFUSED else ""
            message = f"no connection ({os.strerror(number).lower()})"
            return TransportFailure(message, sent=False, hint=hint)
        case aiohttp.ClientConnectorError():
            return TransportFailure("no connection", sent=False)
        case aiohttp.ClientPayloadError():
            return TransportFailure("the answer broke off")
    return TransportFailure("the connection was lost")


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds of a `Retry-After` header, which holds seconds or a date."""
    given = headers.get("Retry-After", "").strip()
    try:
        if given.replace(".", "", 1).isdecimal():
            return float(given)
        moment = parsedate_to_datetime(given)
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        return max(0.0, (moment - datetime.now(UTC)).total_seconds())
    except (ValueError, TypeError, IndexError, OverflowError):  # servers send anything
        return None
