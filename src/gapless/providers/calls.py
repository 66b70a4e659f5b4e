"""A call, and what came of it: a result, or the reason why there is none.

Shared by all wires: how calls are encoded and answers decoded is theirs; what an error means for
the caller is the same everywhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import msgspec
from msgspec import Raw, Struct

from gapless.providers.provider_errors import Reaction, Refusal, classify

NULL = Raw(b"null")
ABSENT = Raw()
UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
LONGEST_MESSAGE = 1000
_NULL_SIZE = memoryview(NULL).nbytes
# With these statuses, the key or the URL is wrong, unless the message says something else.
_DENIED = frozenset({301, 302, 307, 308, 401, 402, 403, 404, 405})
_HINTS = {
    401: "Is the API key still valid?",
    403: "Is the API key still valid?",
    402: "Is the plan paid for?",
}


class Call(NamedTuple):
    """A method, its parameters, and the block height that it asks for, if any."""

    method: str
    params: Sequence[Any] = ()
    height: int | None = None

    @property
    def kind(self) -> str:
        """Calls that differ only in their first parameter have answers of similar size."""
        return f"{self.method}{self.params[1:]}"


class MalformedReply(Exception):
    """The body is not an answer of a node."""


@dataclass(frozen=True, slots=True)
class CallError:
    """Why a call, or a whole request, has no result."""

    refusal: Refusal
    message: str
    call: int | None = None  # its id; None: the whole request
    denied: bool = False  # by HTTP, not by the node: most likely a wrong key or URL
    too_large: bool = False  # the answer, not the number of calls
    unreachable: bool = False  # no server answers at this address
    hint: str = ""  # the likely cause

    @property
    def lasting(self) -> bool:
        """Whether a retry in the near future will fail as well."""
        return self.denied or self.unreachable


@dataclass(slots=True)
class BatchReply:
    """The results and errors of one request."""

    results: dict[int, Raw] = field(default_factory=dict)
    errors: list[CallError] = field(default_factory=list)
    seconds: float = 0.0  # from sending to the answer


class _Error(Struct, gc=False):
    code: int | float | str | None = None
    message: str = ""
    data: Raw = ABSENT


_error = msgspec.json.Decoder(_Error).decode


def is_null(result: Raw | bytes) -> bool:
    """Whether a result is null, without copying large ones."""
    return memoryview(result).nbytes == _NULL_SIZE and bytes(result) == b"null"


def given_error(raw: bytes, status: int, call: int | None, not_a_node: str) -> CallError:
    """Classify an error that a node gave as JSON: an object with a message, or a text."""
    try:
        error = _error(raw)
        code = error.code if isinstance(error.code, int) else None
        message = f"{error.message} {bytes(error.data).decode(errors='replace')}"
    except UNREADABLE:
        code, message = None, raw.decode(errors="replace").strip('"')
    message = truncated(message)
    refusal = classify(message, code, status)
    return _denied(CallError(refusal, message, call), status, not_a_node)


def status_error(body: bytes, status: int, not_a_node: str) -> CallError:
    """Build the error for an HTTP status whose body is not JSON; an HTML page is ignored."""
    text = truncated(body[: 2 * LONGEST_MESSAGE].decode(errors="replace"))
    message = "" if status >= 500 or text.startswith("<") else text
    said = f"HTTP {status} {message}".strip()
    return _denied(CallError(classify(message, None, status), said), status, not_a_node)


def truncated(message: str) -> str:
    """Truncate a message at a space: part of an API key could not be redacted."""
    if len(message) <= LONGEST_MESSAGE:
        return message.strip()
    kept, _, _ = message[: LONGEST_MESSAGE + 1].rpartition(" ")
    return kept.strip()


def _denied(error: CallError, status: int, not_a_node: str) -> CallError:
    if status not in _DENIED or error.refusal.reaction is not Reaction.AGAIN:
        return error
    said = error.message
    message = said if said.startswith("HTTP") else f"HTTP {status} {said}".strip()
    hint = _HINTS.get(status, not_a_node)
    return replace(error, refusal=Refusal(Reaction.SWITCH), message=message, denied=True, hint=hint)
