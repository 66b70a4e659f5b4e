"""One HTTP/1.1 connection to a provider: a request is sent, and its whole response is received.

A request to a provider is always a POST with a body, without redirects, cookies or proxies. This is
all that is implemented here, because a general HTTP client takes as long to import as the rest of a
small fetch takes to run.

A connection carries one request at a time and is reused only after a response that ended where its
own head said. Bytes that nobody asked for close it, so a late or surplus answer cannot be taken for
the answer to the next request.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from io import BytesIO
from typing import NamedTuple

from gapless.providers.transport import TransportFailure

_NOTHING = memoryview(b"")
_LANDING_BYTES = 64 << 10
_MOST_HEAD_BYTES = 64 << 10
_MOST_LINE_BYTES = 4 << 10  # of the line that begins a chunk
_WITHOUT_BODY = (204, 304)
_HEX_DIGITS = frozenset(b"0123456789abcdefABCDEF")


class Received(NamedTuple):
    """A response: the names of its headers are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class _Head(NamedTuple):
    version: str
    status: int
    headers: dict[str, str]

    @property
    def is_chunked(self) -> bool:
        codings = self.headers.get("transfer-encoding", "").lower()
        return codings.rpartition(",")[2].strip() == "chunked"

    @property
    def length(self) -> int | None:
        """Size of the body; None if it ends with the connection."""
        if self.status in _WITHOUT_BODY:
            return 0
        given = self.headers.get("content-length")
        if given is None or "transfer-encoding" in self.headers:
            return None
        if not (given.isascii() and given.isdecimal()):
            raise _malformed()
        return int(given)

    @property
    def keeps_alive(self) -> bool:
        wishes = {each.strip() for each in self.headers.get("connection", "").lower().split(",")}
        return "close" not in wishes if self.version == "HTTP/1.1" else "keep-alive" in wishes


class HttpConnection(asyncio.BufferedProtocol):
    """An open connection; the loop feeds what it receives, one task at a time takes it.

    A large body of known size is received where it stays, so its bytes are not moved from one
    buffer to the next while Python's lock is held.
    """

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._landing = memoryview(bytearray(_LANDING_BYTES))
        self._buffer = bytearray()
        self._expected = _NOTHING  # room for what is still missing of a large body
        self._ended = False
        self._broke = False  # it ended in an error, so bytes may be missing
        self._busy = False
        self._reusable = True
        self._arrival: asyncio.Future[None] | None = None
        self.last_used = 0.0

    @property
    def is_reusable(self) -> bool:
        return self._reusable and not self._ended

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._expected or self._landing

    def buffer_updated(self, nbytes: int) -> None:
        if not self._busy:
            self.abort()
        elif self._expected:
            self._expected = self._expected[nbytes:]
            if not self._expected:
                self._wake()
        else:
            self._buffer += self._landing[:nbytes]
            self._wake()

    def eof_received(self) -> None:
        self._ended = True
        self._wake()

    def connection_lost(self, exc: Exception | None) -> None:
        self._broke = exc is not None and not self._ended
        self._ended = True
        self._wake()

    def abort(self) -> None:
        """Close the connection at once."""
        self._ended = True
        if self._transport is not None:
            self._transport.abort()

    async def exchange(self, head: bytes, body: bytes, most_bytes: int) -> Received:
        """Send a request and return its response; on any failure, the connection is closed."""
        assert self._transport is not None
        self._busy = True
        try:
            self._transport.writelines((head, body))
            found = await self._head()
            received = await self._body(found, most_bytes)
        except EOFError:
            self.abort()
            failure = TransportFailure("the connection was lost")
        except BaseException:
            self.abort()
            raise
        else:
            self._busy = False
            delimited = found.is_chunked or found.length is not None
            self._reusable = delimited and found.keeps_alive and not self._buffer
            return Received(found.status, found.headers, received)
        raise failure

    async def _head(self) -> _Head:
        """The head of the final response; those of interim ones (1xx) are skipped."""
        while True:
            lines = (await self._until(b"\r\n\r\n", _MOST_HEAD_BYTES)).decode("latin-1")
            found = _parsed(lines.split("\r\n"))
            if not 100 <= found.status < 200:
                return found
            if found.status == 101:  # another protocol begins, which nobody requested
                raise _malformed()

    async def _body(self, head: _Head, most_bytes: int) -> bytes:
        try:
            if head.is_chunked and head.status not in _WITHOUT_BODY:
                return await self._chunks(most_bytes)
            if head.length is None:
                return await self._rest(most_bytes)
            if head.length > most_bytes:
                raise _too_large(most_bytes)
            return await self._exactly(head.length)
        except EOFError:
            failure = TransportFailure("the answer broke off")
        raise failure

    async def _chunks(self, most_bytes: int) -> bytes:
        pieces: list[bytes] = []
        left = most_bytes
        while size := _chunk_size(await self._until(b"\r\n", _MOST_LINE_BYTES)):
            left -= size
            if left < 0:
                raise _too_large(most_bytes)
            pieces.append(await self._exactly(size))
            if await self._exactly(2) != b"\r\n":
                raise _malformed()
        while await self._until(b"\r\n", _MOST_HEAD_BYTES):
            pass  # trailers
        return b"".join(pieces)

    async def _rest(self, most_bytes: int) -> bytes:
        while not self._ended:
            if len(self._buffer) > most_bytes:
                raise _too_large(most_bytes)
            await self._more()
        if self._broke:
            raise EOFError
        return self._taken(len(self._buffer))

    async def _until(self, mark: bytes, most_bytes: int) -> bytes:
        """The bytes before a mark, which is taken as well."""
        searched = 0
        while (at := self._buffer.find(mark, searched)) < 0:
            if len(self._buffer) > most_bytes:
                raise _malformed()
            searched = max(0, len(self._buffer) - len(mark) + 1)
            if self._ended:
                raise EOFError
            await self._more()
        return self._taken(at + len(mark))[:at]

    async def _exactly(self, size: int) -> bytes:
        if size > max(_LANDING_BYTES, len(self._buffer)):
            return await self._landed(size)
        while len(self._buffer) < size:
            if self._ended:
                raise EOFError
            await self._more()
        return self._taken(size)

    async def _landed(self, size: int) -> bytes:
        """Bytes that are received into their own buffer, after those that are here already."""
        whole = BytesIO(bytes(size))  # whose value becomes `bytes` without a copy
        whole.write(self._buffer)
        self._expected = whole.getbuffer()[len(self._buffer) :]
        self._buffer.clear()
        while self._expected:
            if self._ended:
                raise EOFError
            await self._more()
        self._expected = _NOTHING  # the last view of the body, which would keep it in memory
        return whole.getvalue()

    def _taken(self, size: int) -> bytes:
        with memoryview(self._buffer) as view:
            taken = bytes(view[:size])
        del self._buffer[:size]
        return taken

    async def _more(self) -> None:
        """Wait until bytes arrive or the connection ends."""
        self._arrival = asyncio.get_running_loop().create_future()
        try:
            await self._arrival
        finally:
            self._arrival = None

    def _wake(self) -> None:
        if self._arrival is not None and not self._arrival.done():
            self._arrival.set_result(None)


def _parsed(lines: list[str]) -> _Head:
    version, _, status = lines[0].partition(" ")
    code = status[:3]
    if version not in ("HTTP/1.1", "HTTP/1.0") or not (code.isascii() and code.isdecimal()):
        raise _malformed()
    headers: dict[str, str] = {}
    for line in lines[1:]:
        name, colon, value = line.partition(":")
        name, value = name.lower(), value.strip()
        if not colon or not name or name != name.strip():
            raise _malformed()
        if headers.setdefault(name, value) != value and name == "content-length":
            raise _malformed()  # two lengths: where the response ends is unknown
    return _Head(version, int(code), headers)


def _chunk_size(line: bytes) -> int:
    digits = line.partition(b";")[0].strip()
    if not digits or not _HEX_DIGITS.issuperset(digits):
        raise _malformed()
    return int(digits, 16)


def _malformed() -> TransportFailure:
    return TransportFailure("the connection was lost")


def _too_large(most_bytes: int) -> TransportFailure:
    return TransportFailure(f"the answer is larger than {most_bytes >> 20} MiB")
