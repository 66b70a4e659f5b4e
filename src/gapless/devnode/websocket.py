"""The server's side of a WebSocket connection (RFC 6455): the handshake, frames and closing.

It reads what clients of JSON-RPC send: text, whole or in fragments, pings, and the end. It
negotiates no extension, so nothing is compressed.
"""

from __future__ import annotations

import asyncio
from base64 import b64encode
from collections.abc import Callable, Mapping
from enum import IntEnum
from hashlib import sha1
from typing import NamedTuple, Protocol

_KEY_SUFFIX = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"  # the constant of RFC 6455
_MOST_BYTES = 1 << 20  # of a message
_SMALL, _MEDIUM = 126, 1 << 16  # payloads below have a length of one byte, or of three


class Opcode(IntEnum):
    CONTINUATION = 0
    TEXT = 1
    BINARY = 2
    CLOSE = 8
    PING = 9
    PONG = 10


class CloseCode(IntEnum):
    NORMAL = 1000
    PROTOCOL_ERROR = 1002
    TOO_LARGE = 1009


class WebSocketFrame(NamedTuple):
    """A frame of a message."""

    opcode: int
    payload: bytes
    is_last: bool = True  # of its message


class ProtocolError(Exception):
    """The client does not follow the protocol."""

    def __init__(self, code: CloseCode) -> None:
        super().__init__(code.name)
        self.code = code


class WebSocketSession(Protocol):
    """What a connection is used for."""

    def received(self, text: bytes) -> None:
        """A message came."""

    def lost(self) -> None:
        """The connection is closed."""


class WebSocket:
    """One client's connection, after the handshake."""

    def __init__(
        self, transport: asyncio.Transport, opened: Callable[[WebSocket], WebSocketSession]
    ) -> None:
        self._transport = transport
        self._message = bytearray()
        self._session = opened(self)

    def send(self, text: bytes) -> None:
        """Sends a message."""
        self._write(Opcode.TEXT, text)

    def drop(self) -> None:
        """Aborts the connection, without a close frame."""
        self._transport.abort()

    def lost(self) -> None:
        """Takes note that the connection is closed."""
        self._session.lost()

    def advance(self, buffer: bytearray) -> None:
        """Takes the complete frames off the buffer."""
        try:
            while not self._transport.is_closing():
                frame, size = parsed_frame(buffer)
                if frame is None:
                    return
                del buffer[:size]
                self._take(frame)
        except ProtocolError as error:
            self._close(error.code.to_bytes(2, "big"))

    def _take(self, frame: WebSocketFrame) -> None:
        match frame.opcode:
            case Opcode.TEXT | Opcode.BINARY | Opcode.CONTINUATION:
                self._message += frame.payload
                if len(self._message) > _MOST_BYTES:
                    raise ProtocolError(CloseCode.TOO_LARGE)
                if frame.is_last:
                    text = bytes(self._message)
                    self._message.clear()
                    self._session.received(text)
            case Opcode.PING:
                self._write(Opcode.PONG, frame.payload)
            case Opcode.CLOSE:
                self._close(frame.payload[:2] or CloseCode.NORMAL.to_bytes(2, "big"))
            case Opcode.PONG:
                pass
            case _:
                raise ProtocolError(CloseCode.PROTOCOL_ERROR)

    def _close(self, code: bytes) -> None:
        self._write(Opcode.CLOSE, code)
        self._transport.close()

    def _write(self, opcode: Opcode, payload: bytes) -> None:
        if not self._transport.is_closing():
            self._transport.write(encoded_frame(opcode, payload))


def is_upgrade(headers: Mapping[str, str]) -> bool:
    """Whether a request with these headers, named in lower case, asks for a WebSocket."""
    return headers.get("upgrade", "").lower() == "websocket" and "sec-websocket-key" in headers


def handshake(headers: Mapping[str, str]) -> bytes:
    """The answer that turns the connection into a WebSocket."""
    key = headers["sec-websocket-key"] + _KEY_SUFFIX
    accepted = b64encode(sha1(key.encode(), usedforsecurity=False).digest())
    return (
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        b"Sec-WebSocket-Accept: " + accepted + b"\r\n\r\n"
    )


def encoded_frame(opcode: Opcode, payload: bytes) -> bytes:
    """A whole message as one frame from the server, which is not masked."""
    size = len(payload)
    if size < _SMALL:
        length = bytes([size])
    elif size < _MEDIUM:
        length = b"\x7e" + size.to_bytes(2, "big")
    else:
        length = b"\x7f" + size.to_bytes(8, "big")
    return bytes([0x80 | opcode]) + length + payload


def parsed_frame(buffer: bytearray) -> tuple[WebSocketFrame | None, int]:
    """The first frame from a client in the buffer, and its size; None if it is incomplete."""
    if len(buffer) < 2:
        return None, 0
    is_last, opcode = bool(buffer[0] & 0x80), buffer[0] & 0x0F
    masked, size = bool(buffer[1] & 0x80), buffer[1] & 0x7F
    if buffer[0] & 0x70 or not masked:  # an extension; or a frame that no client may send
        raise ProtocolError(CloseCode.PROTOCOL_ERROR)
    at = 2
    if size >= _SMALL:
        at += 2 if size == _SMALL else 8
        size = int.from_bytes(buffer[2:at], "big")
    if len(buffer) >= at and size > _MOST_BYTES:
        raise ProtocolError(CloseCode.TOO_LARGE)
    start = at + 4
    if len(buffer) < start + size:
        return None, 0
    mask, payload = buffer[at:start], buffer[start : start + size]
    return WebSocketFrame(opcode, _unmasked(payload, mask), is_last), start + size


def _unmasked(payload: bytearray, mask: bytearray) -> bytes:
    size = len(payload)
    stream = (bytes(mask) * (size // 4 + 1))[:size]
    bits = int.from_bytes(payload, "big") ^ int.from_bytes(stream, "big")
    return bits.to_bytes(size, "big")
