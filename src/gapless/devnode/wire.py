"""A minimal HTTP/1.1 server for JSON-RPC clients that can fail in every way.

A connection answers its requests in order, without a task: a delayed answer is a timer, and a
hanging connection sends nothing. So no task is left behind when a client disconnects. A client may
turn its connection into a WebSocket.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from enum import Enum
from http import HTTPStatus
from typing import NamedTuple, cast

from isal import isal_zlib

from gapless.devnode.websocket import WebSocket, WebSocketSession, handshake, is_upgrade

_HEAD_END = b"\r\n\r\n"
_MOST_HEAD, _MOST_BODY = 1 << 16, 1 << 26
_WORTH_PACKING = 1024
_GZIP = 31  # the window bits that mean a gzip container
_REASONS = {status.value: status.phrase for status in HTTPStatus}


class HttpRequest(NamedTuple):
    """What a client sent."""

    method: str
    path: str
    headers: dict[str, str]  # names in lower case
    body: bytes


class Ending(Enum):
    """What happens to the connection after the answer."""

    KEPT = "kept"
    CUT = "cut"  # closed after a part of the answer, perhaps none of it
    HANGING = "hanging"  # nothing is ever sent


class Reply(NamedTuple):
    """What the node sends, and when."""

    body: bytes
    status: int = 200
    headers: tuple[tuple[str, str], ...] = ()
    ending: Ending = Ending.KEPT
    share: float = 1.0  # the part of the answer that a cut connection delivers
    delay: float = 0.0  # seconds


class BadRequest(ValueError):
    """The data is not supported HTTP."""


class ClientConnection(asyncio.Protocol):
    """One client's connection."""

    def __init__(
        self,
        respond: Callable[[HttpRequest], Reply],
        everyone: set[ClientConnection],
        *,
        packing: bool,
        opened: Callable[[WebSocket], WebSocketSession] | None = None,
    ) -> None:
        self._respond, self._everyone, self._packing = respond, everyone, packing
        self._opened = opened
        self._socket: WebSocket | None = None
        self._buffer = bytearray()
        self._timer: asyncio.TimerHandle | None = None
        self._busy = False
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._everyone.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._everyone.discard(self)
        self._transport = None
        if self._timer is not None:
            self._timer.cancel()
        if self._socket is not None:
            self._socket.lost()

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        self._advance()

    def _advance(self) -> None:
        """Answers complete requests in order."""
        while self._socket is None and not self._busy and self._transport is not None:
            try:
                request, size = parsed(self._buffer)
            except BadRequest as error:
                self._send(b"", Reply(str(error).encode(), 400), last=True)
                return
            if request is None:
                if size:  # the client waits for `100 Continue` before it sends the body
                    self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
                return
            del self._buffer[:size]
            if self._opened is not None and is_upgrade(request.headers):
                self._transport.write(handshake(request.headers))
                self._socket = WebSocket(self._transport, self._opened)
                break
            reply = self._respond(request)
            if reply.delay > 0:
                self._busy = True
                loop = asyncio.get_running_loop()
                self._timer = loop.call_later(reply.delay, self._finish_late, request, reply)
            else:
                self._finish(request, reply)
        if self._socket is not None:
            self._socket.advance(self._buffer)

    def _finish_late(self, request: HttpRequest, reply: Reply) -> None:
        self._busy = False
        self._finish(request, reply)
        self._advance()

    def _finish(self, request: HttpRequest, reply: Reply) -> None:
        if reply.ending is Ending.HANGING:
            self._busy = True
            return
        takes_gzip = self._packing and "gzip" in request.headers.get("accept-encoding", "")
        packed = b""
        if takes_gzip and len(reply.body) > _WORTH_PACKING:
            packed = isal_zlib.compress(reply.body, 1, _GZIP)
        last = request.headers.get("connection", "").lower() == "close"
        self._send(packed, reply, last=last or reply.ending is Ending.CUT)

    def _send(self, packed: bytes, reply: Reply, *, last: bool) -> None:
        if self._transport is None:
            return
        body = packed or reply.body
        head = f"HTTP/1.1 {reply.status} {_REASONS.get(reply.status, 'Unknown')}\r\n"
        head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
        if packed:
            head += "Content-Encoding: gzip\r\n"
        if last:
            head += "Connection: close\r\n"
        head += "".join([f"{name}: {value}\r\n" for name, value in reply.headers])
        answer = b"".join((head.encode(), b"\r\n", body))
        self._transport.write(answer[: int(len(answer) * reply.share)])
        if last:
            self._transport.close()


def parsed(buffer: bytearray) -> tuple[HttpRequest | None, int]:
    """The first request in the buffer and its size; if incomplete, whether to send 100 Continue."""
    if buffer and not buffer[:1].isalpha():  # such as a client that expects TLS
        raise BadRequest("this is not HTTP")
    end = buffer.find(_HEAD_END)
    if end < 0:
        if len(buffer) > _MOST_HEAD:
            raise BadRequest("the head does not end")
        return None, 0
    first, *lines = bytes(buffer[:end]).decode("latin-1").split("\r\n")
    words = first.split(" ")
    if len(words) != 3:
        raise BadRequest("no request line")
    headers = {}
    for line in lines:
        name, _, value = line.partition(":")
        headers[name.strip().lower()] = value.strip()
    start = end + len(_HEAD_END)
    if headers.get("transfer-encoding", "").lower() == "chunked":
        body, size = _chunks(buffer, start)
    else:
        length = headers.get("content-length", "0")
        if not length.isdecimal() or int(length) > _MOST_BODY:
            raise BadRequest("no length of the body, or too much of it")
        size = start + int(length)
        body = bytes(buffer[start:size]) if len(buffer) >= size else None
    if body is None:
        return None, int("expect" in headers and len(buffer) == start)
    return HttpRequest(words[0], words[1], headers, body), size


def _chunks(buffer: bytearray, at: int) -> tuple[bytes | None, int]:
    """Decodes a chunked body: each chunk follows its size."""
    pieces: list[bytes] = []
    while (end := buffer.find(b"\r\n", at)) >= 0:
        try:
            size = int(bytes(buffer[at:end]).partition(b";")[0], 16)
        except ValueError:
            raise BadRequest("a piece without its size") from None
        at = end + 2 + size + 2
        if size > _MOST_BODY:
            raise BadRequest("too much of a body")
        if len(buffer) < at:
            break
        if size == 0:
            return b"".join(pieces), at
        pieces.append(bytes(buffer[end + 2 : at - 2]))
    return None, 0
