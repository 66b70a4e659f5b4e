"""Send bytes to a provider and receive its answer, over persistent connections or a WebSocket.

Every failure is a `TransportFailure` whose message does not contain the URL. Bodies are
decompressed by isal, off the event loop and twice as fast as by zlib. An endless body, compressed
or not, is abandoned before it fills the memory.
"""

from __future__ import annotations

import asyncio
import ssl
from base64 import b64encode
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from functools import cache
from types import TracebackType
from typing import NamedTuple, Self
from urllib.parse import SplitResult, quote, unquote, urlsplit

from isal import isal_zlib

from gapless.providers.connection import HttpConnection
from gapless.providers.failures import connection_failure
from gapless.providers.transport import Response, Socket, Timeouts, TransportFailure

_HEADERS = {
    "Accept": "*/*",
    "Accept-Encoding": "gzip",
    "Content-Type": "application/json",
    "User-Agent": "gapless",
}
MOST_BYTES = 512 << 20  # of a body; the largest known block has 21 MB of receipts
_GZIP = 31  # window bits that select gzip
_CALLS_PER_READ = 100  # a batch of this size gets twice the time
_TLS_PATIENCE = 1.0  # seconds
_IDLE = 15.0  # seconds after which a connection is not used again
_NEXT_ADDRESS = 0.25  # seconds after which another address of the host is tried as well
_PORTS = {"http": 80, "https": 443}
_UNQUOTED = "!$%&'()*+,/:;=?@[]~"  # in a path or query, also what is quoted already


class _Origin(NamedTuple):
    scheme: str
    host: str
    port: int

    @property
    def is_address(self) -> bool:
        return ":" in self.host or self.host.replace(".", "").isdecimal()


class Http:
    """The connections of one pool."""

    def __init__(self, timeouts: Timeouts) -> None:
        self._timeouts = timeouts
        self._idle: dict[_Origin, list[HttpConnection]] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for connections in self._idle.values():
            for each in connections:
                each.abort()
        self._idle.clear()
        await asyncio.sleep(0)  # the loop closes the sockets in its next turn

    async def post(
        self, url: str, body: bytes, *, headers: Mapping[str, str], calls: int, fresh: bool
    ) -> Response:
        """Send a request and return the response; `fresh` uses a new connection."""
        times = self._timeouts
        try:
            origin, head = _request(url, headers, len(body), fresh=fresh)
            async with asyncio.timeout(times.connect + times.read * (1 + calls / _CALLS_PER_READ)):
                connection = None if fresh else self._kept(origin)
                if connection is None:
                    connection = await _connected(origin, times.connect)
                found = await connection.exchange(head, body, MOST_BYTES)
        except TimeoutError as error:
            raise TransportFailure("no answer in time", slow=True) from error
        except ValueError as error:
            raise TransportFailure("invalid URL", hint="Is the URL complete?") from error
        if fresh or not connection.is_reusable:
            connection.abort()
        else:
            connection.last_used = asyncio.get_running_loop().time()
            self._idle.setdefault(origin, []).append(connection)
        encoding = found.headers.get("content-encoding", "").lower()
        return Response(found.status, found.body, encoding, retry_after(found.headers))

    def _kept(self, origin: _Origin) -> HttpConnection | None:
        """The idle connection that was used last; those that waited too long are closed."""
        found = self._idle.get(origin, [])
        oldest = asyncio.get_running_loop().time() - _IDLE
        while found:
            latest = found.pop()
            if latest.is_reusable and latest.last_used >= oldest:
                return latest
            latest.abort()
        return None

    @asynccontextmanager
    async def socket(self, url: str) -> AsyncIterator[Socket]:
        """Open a WebSocket, and close it on exit."""
        from gapless.providers.websocket import opened  # imports a large HTTP client

        async with opened(url, self._timeouts) as socket:
            yield socket

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


async def _connected(origin: _Origin, seconds: float) -> HttpConnection:
    secure = origin.scheme == "https"
    try:
        async with asyncio.timeout(seconds):
            _, connection = await asyncio.get_running_loop().create_connection(
                HttpConnection,
                origin.host,
                origin.port,
                ssl=_verified() if secure else None,
                server_hostname=origin.host.rstrip(".") if secure else None,
                happy_eyeballs_delay=None if origin.is_address else _NEXT_ADDRESS,
            )
    except OSError as error:
        if isinstance(error, TimeoutError) and error.errno is None:  # ours, not the system's
            raise
        raise connection_failure(error) from error
    return connection


@cache
def _verified() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.set_alpn_protocols(["http/1.1"])
    return context


def _request(
    url: str, headers: Mapping[str, str], size: int, *, fresh: bool
) -> tuple[_Origin, bytes]:
    """Where a request goes, and its head; raises `ValueError` if the URL is invalid."""
    parts = urlsplit(url)
    if parts.scheme not in _PORTS or not parts.hostname:
        raise ValueError("not a URL of an HTTP server")
    host = parts.hostname if parts.hostname.isascii() else parts.hostname.encode("idna").decode()
    origin = _Origin(parts.scheme, host, parts.port or _PORTS[parts.scheme])
    sent = {name.lower(): (name, value) for name, value in _own_headers(parts, origin).items()}
    sent |= {name.lower(): (name, value) for name, value in headers.items()}
    sent["content-length"] = ("Content-Length", str(size))
    if fresh:
        sent["connection"] = ("Connection", "close")
    target = quote(parts.path or "/", safe=_UNQUOTED)
    if parts.query:
        target = f"{target}?{quote(parts.query, safe=_UNQUOTED)}"
    lines = [f"POST {target} HTTP/1.1", *(f"{name}: {value}" for name, value in sent.values())]
    if any(not each.isprintable() for each in lines):
        raise ValueError("a control character in a header")
    return origin, "\r\n".join((*lines, "", "")).encode()


def _own_headers(parts: SplitResult, origin: _Origin) -> dict[str, str]:
    host = f"[{origin.host}]" if ":" in origin.host else origin.host
    is_usual = origin.port == _PORTS[origin.scheme]
    found = {"Host": host if is_usual else f"{host}:{origin.port}", **_HEADERS}
    if parts.username is not None or parts.password is not None:
        pair = f"{unquote(parts.username or '')}:{unquote(parts.password or '')}"
        found["Authorization"] = f"Basic {b64encode(pair.encode()).decode()}"
    return found


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


def _gunzip(packed: bytes) -> bytes:
    """Decompress one or more gzip members."""
    pieces: list[bytes] = []
    left = MOST_BYTES + 1
    while packed:
        member = isal_zlib.decompressobj(wbits=_GZIP)
        pieces.append(member.decompress(packed, left))
        left -= len(pieces[-1])
        if left <= 0:
            raise TransportFailure(f"the answer is larger than {MOST_BYTES >> 20} MiB")
        if not member.eof:
            raise TransportFailure("the answer is damaged")
        packed = member.unused_data
    return b"".join(pieces)


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds of a `Retry-After` header, which holds seconds or a date."""
    given = headers.get("retry-after", "").strip()
    if not given:
        return None
    try:
        if given.replace(".", "", 1).isdecimal():
            return float(given)
        from email.utils import parsedate_to_datetime  # rarely needed, and slow to import

        moment = parsedate_to_datetime(given)
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        return max(0.0, (moment - datetime.now(UTC)).total_seconds())
    except (ValueError, TypeError, IndexError, OverflowError):  # servers send anything
        return None
