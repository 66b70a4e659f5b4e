"""What a transport takes and returns, and how it fails. No message contains the URL."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol


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
