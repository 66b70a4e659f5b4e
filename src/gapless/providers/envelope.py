"""Encode JSON-RPC requests, decode answers, and classify errors.

Answers are matched by id, in any order; a result stays the bytes that the node sent. A call with
neither a result nor an error counts as missing and is asked again. A single object instead of a
list applies to the whole batch.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import msgspec
from msgspec import Raw, Struct

from gapless.providers.provider_errors import Reaction, Refusal, classify

NULL = Raw(b"null")
_ABSENT = Raw()
_UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
_LONGEST_MESSAGE = 1000
# With these statuses, the key or the URL is wrong, unless the message says something else.
_DENIED = frozenset({301, 302, 307, 308, 401, 402, 403, 404, 405})
_HINTS = {
    401: "Is the API key still valid?",
    403: "Is the API key still valid?",
    402: "Is the plan paid for?",
}
NOT_A_NODE = "Is this the URL of a JSON-RPC node?"


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
    """The body is not a JSON-RPC answer."""


@dataclass(frozen=True, slots=True)
class CallError:
    """Why a call, or a whole request, has no result."""

    refusal: Refusal
    message: str
    call: int | None = None  # its id; None: the whole request
    denied: bool = False  # by HTTP, not by JSON-RPC: most likely a wrong key or URL
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


class _Request(Struct):
    id: int
    method: str
    params: Sequence[Any]
    jsonrpc: str = "2.0"


class _Answer(Struct, gc=False):
    id: int | float | str | None = None
    result: Raw = _ABSENT
    error: Raw = _ABSENT
    bare_error: Raw = msgspec.field(default=_ABSENT, name="Error")  # java-tron, without an envelope


class _Error(Struct, gc=False):
    code: int | float | str | None = None
    message: str = ""
    data: Raw = _ABSENT


_encode = msgspec.json.Encoder().encode
_lists = msgspec.json.Decoder(list[_Answer]).decode
_single = msgspec.json.Decoder(_Answer).decode
_error = msgspec.json.Decoder(_Error).decode


def encode(calls: Mapping[int, Call]) -> bytes:
    """Encode the body of a request for these calls."""
    requests = [_Request(at, call.method, call.params) for at, call in calls.items()]
    return _encode(requests if len(requests) > 1 else requests[0])


def read(body: bytes, status: int, ids: Collection[int]) -> BatchReply:
    """Decode what a response says about the calls with these ids."""
    reply, good = BatchReply(), 200 <= status < 300
    listed = body.lstrip()[:1] == b"["
    try:
        answers = _lists(body) if listed else [_single(body)]
    except _UNREADABLE as error:
        if good:
            raise MalformedReply("the answer is not JSON-RPC") from error
        reply.errors.append(_status_error(body, status))
        return reply
    for answer in answers:
        at = _match_id(answer.id, ids)
        if not listed and at is None and len(ids) == 1:
            at = next(iter(ids)) if _size(answer.result) == 0 else None
        if refused := _error_bytes(answer.error) or _error_bytes(answer.bare_error):
            if at is not None or not listed:
                reply.errors.append(_call_error(refused, status, at if at in ids else None))
        elif at is not None and good and _size(answer.result):
            reply.results.setdefault(at, answer.result)
    if not good and not reply.errors:
        reply.errors.append(_status_error(b"", status))
    return reply


def _size(raw: Raw) -> int:
    return memoryview(raw).nbytes


def _error_bytes(raw: Raw) -> bytes:
    """Return an error's bytes; empty for null."""
    return b"" if bytes(raw) == b"null" else bytes(raw)


def _match_id(given: float | str | None, ids: Collection[int]) -> int | None:
    """Return the request id that this is; some nodes return a number as text."""
    try:
        at = int(given) if given is not None else None
    except (ValueError, OverflowError):
        return None
    return at if at in ids else None


def _call_error(raw: bytes, status: int, at: int | None) -> CallError:
    try:
        error = _error(raw)
        code = error.code if isinstance(error.code, int) else None
        message = f"{error.message} {bytes(error.data).decode(errors='replace')}"
    except _UNREADABLE:
        code, message = None, raw.decode(errors="replace").strip('"')
    message = _truncate(message)
    return _denied(CallError(classify(message, code, status), message, at), status)


def _status_error(body: bytes, status: int) -> CallError:
    """Build the error for an HTTP status whose body is not JSON; an HTML page is ignored."""
    text = _truncate(body[: 2 * _LONGEST_MESSAGE].decode(errors="replace"))
    message = "" if status >= 500 or text.startswith("<") else text
    said = f"HTTP {status} {message}".strip()
    return _denied(CallError(classify(message, None, status), said), status)


def _truncate(message: str) -> str:
    """Truncate a message at a space: part of an API key could not be redacted."""
    if len(message) <= _LONGEST_MESSAGE:
        return message.strip()
    kept, _, _ = message[: _LONGEST_MESSAGE + 1].rpartition(" ")
    return kept.strip()


def _denied(error: CallError, status: int) -> CallError:
    if status not in _DENIED or error.refusal.reaction is not Reaction.AGAIN:
        return error
    said = error.message
    message = said if said.startswith("HTTP") else f"HTTP {status} {said}".strip()
    hint = _HINTS.get(status, NOT_A_NODE)
    return replace(error, refusal=Refusal(Reaction.SWITCH), message=message, denied=True, hint=hint)
