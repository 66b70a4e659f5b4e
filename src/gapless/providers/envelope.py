"""JSON-RPC as bytes: requests written, answers read, refusals understood.

Answers are matched by id, in any order; a result stays the bytes that the node sent. What is
neither a result nor an error for one of our ids is simply missing, and will be asked again. One
object instead of a list speaks for the whole batch.
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
_MOST_WORDS = 1000
# These mean the key or the address, unless the words mean something else.
_DENIED = frozenset({301, 302, 307, 308, 401, 402, 403, 404, 405})
_HINTS = {
    401: "Is the API key still valid?",
    403: "Is the API key still valid?",
    402: "Is the plan paid for?",
}
NOT_A_NODE = "Is this the URL of a JSON-RPC node?"


class Call(NamedTuple):
    """A method, its parameters, and the height that it is about, if it is about one."""

    method: str
    params: Sequence[Any] = ()
    height: int | None = None

    @property
    def kind(self) -> str:
        """Calls that differ in their first parameter only have answers of a like size."""
        return f"{self.method}{self.params[1:]}"


class Unreadable(Exception):
    """The body is no JSON-RPC answer."""


@dataclass(frozen=True, slots=True)
class CallError:
    """Why a call, or a whole request, has no result."""

    refusal: Refusal
    words: str
    call: int | None = None  # its id; None: the whole request
    denied: bool = False  # by HTTP, not by JSON-RPC: most likely a wrong key or address
    too_large: bool = False  # the answer, not the number of calls
    unreachable: bool = False  # there is nobody to ask at this address
    hint: str = ""  # what may be the cause

    @property
    def lasting(self) -> bool:
        """Whether asking again soon will not help."""
        return self.denied or self.unreachable


@dataclass(slots=True)
class BatchReply:
    """What came back for a request."""

    results: dict[int, Raw] = field(default_factory=dict)
    errors: list[CallError] = field(default_factory=list)
    seconds: float = 0.0  # that it took, once it was sent


class _Request(Struct):
    id: int
    method: str
    params: Sequence[Any]
    jsonrpc: str = "2.0"


class _Answer(Struct, gc=False):
    id: int | float | str | None = None
    result: Raw = _ABSENT
    error: Raw = _ABSENT
    bare: Raw = msgspec.field(default=_ABSENT, name="Error")  # java-tron, without an envelope


class _Error(Struct, gc=False):
    code: int | float | str | None = None
    message: str = ""
    data: Raw = _ABSENT


_encode = msgspec.json.Encoder().encode
_lists = msgspec.json.Decoder(list[_Answer]).decode
_single = msgspec.json.Decoder(_Answer).decode
_error = msgspec.json.Decoder(_Error).decode


def written(calls: Mapping[int, Call]) -> bytes:
    """The body that asks for these calls."""
    requests = [_Request(at, call.method, call.params) for at, call in calls.items()]
    return _encode(requests if len(requests) > 1 else requests[0])


def read(body: bytes, status: int, ids: Collection[int]) -> BatchReply:
    """What a response says about the calls with these ids."""
    reply, good = BatchReply(), 200 <= status < 300
    listed = body.lstrip()[:1] == b"["
    try:
        answers = _lists(body) if listed else [_single(body)]
    except _UNREADABLE as error:
        if good:
            raise Unreadable("the answer is no JSON-RPC") from error
        reply.errors.append(_of_status(body, status))
        return reply
    for answer in answers:
        at = _known(answer.id, ids)
        if not listed and at is None and len(ids) == 1:
            at = next(iter(ids)) if _size(answer.result) == 0 else None
        if refused := _said(answer.error) or _said(answer.bare):
            if at is not None or not listed:
                reply.errors.append(_complaint(refused, status, at if at in ids else None))
        elif at is not None and good and _size(answer.result):
            reply.results.setdefault(at, answer.result)
    if not good and not reply.errors:
        reply.errors.append(_of_status(b"", status))
    return reply


def _size(raw: Raw) -> int:
    return memoryview(raw).nbytes


def _said(raw: Raw) -> bytes:
    """An error's bytes; none for null."""
    return b"" if bytes(raw) == b"null" else bytes(raw)


def _known(given: float | str | None, ids: Collection[int]) -> int | None:
    """Which of our ids this is; some nodes give a number back as text."""
    try:
        at = int(given) if given is not None else None
    except (ValueError, OverflowError):
        return None
    return at if at in ids else None


def _complaint(raw: bytes, status: int, at: int | None) -> CallError:
    try:
        error = _error(raw)
        code = error.code if isinstance(error.code, int) else None
        words = f"{error.message} {bytes(error.data).decode(errors='replace')}"
    except _UNREADABLE:
        code, words = None, raw.decode(errors="replace").strip('"')
    words = _cut(words)
    return _denied(CallError(classify(words, code, status), words, at), status)


def _of_status(body: bytes, status: int) -> CallError:
    """What an HTTP status means whose body is no JSON; a page of HTML says nothing about us."""
    text = _cut(body[: 2 * _MOST_WORDS].decode(errors="replace"))
    words = "" if status >= 500 or text.startswith("<") else text
    said = f"HTTP {status} {words}".strip()
    return _denied(CallError(classify(words, None, status), said), status)


def _cut(words: str) -> str:
    """The beginning of some words, none of them in part: half a key could not be struck out."""
    if len(words) <= _MOST_WORDS:
        return words.strip()
    kept, _, _ = words[: _MOST_WORDS + 1].rpartition(" ")
    return kept.strip()


def _denied(error: CallError, status: int) -> CallError:
    if status not in _DENIED or error.refusal.reaction is not Reaction.AGAIN:
        return error
    said = error.words
    words = said if said.startswith("HTTP") else f"HTTP {status} {said}".strip()
    hint = _HINTS.get(status, NOT_A_NODE)
    return replace(error, refusal=Refusal(Reaction.SWITCH), words=words, denied=True, hint=hint)
