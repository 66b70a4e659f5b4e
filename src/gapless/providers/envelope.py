"""The wire of JSON-RPC: encode requests, decode answers.

Answers are matched by id, in any order; a result stays the bytes that the node sent. A call with
neither a result nor an error counts as missing and is asked again. A single object instead of a
list applies to the whole batch.

Where the compiled core is installed, it finds the results in usual answers without Python's lock.
The decoders here define what it may find, and read everything else.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Raw, Struct

from gapless.providers.calls import (
    ABSENT,
    UNREADABLE,
    BatchReply,
    Call,
    MalformedReply,
    given_error,
    status_error,
)
from gapless.providers.wire import WireRequest
from gapless.schema.native import installed

_LARGE = 16 << 10  # bytes, below which releasing the lock costs more than it saves
NOT_A_NODE = "Is this the URL of a JSON-RPC node?"


class _Request(Struct):
    id: int
    method: str
    params: Sequence[Any]
    jsonrpc: str = "2.0"


class _Answer(Struct, gc=False):
    id: int | float | str | None = None
    result: Raw = ABSENT
    error: Raw = ABSENT
    bare_error: Raw = msgspec.field(default=ABSENT, name="Error")  # java-tron, without an envelope


_encode = msgspec.json.Encoder().encode
_lists = msgspec.json.Decoder(list[_Answer]).decode
_single = msgspec.json.Decoder(_Answer).decode


def encode(calls: Mapping[int, Call]) -> bytes:
    """Encode the body of a request for these calls."""
    requests = [_Request(at, call.method, call.params) for at, call in calls.items()]
    return _encode(requests if len(requests) > 1 else requests[0])


def read(body: bytes, status: int, ids: Collection[int]) -> BatchReply:
    """Decode what a response says about the calls with these ids."""
    reply, good = BatchReply(), 200 <= status < 300
    listed = body.lstrip()[:1] == b"["
    try:
        answers = _split(body) or (_lists(body) if listed else [_single(body)])
    except UNREADABLE as error:
        if good:
            raise MalformedReply("the answer is not JSON-RPC") from error
        reply.errors.append(status_error(body, status, NOT_A_NODE))
        return reply
    for answer in answers:
        at = _match_id(answer.id, ids)
        if not listed and at is None and len(ids) == 1:
            at = next(iter(ids)) if _size(answer.result) == 0 else None
        if refused := _error_bytes(answer.error) or _error_bytes(answer.bare_error):
            if at is not None or not listed:
                reply.errors.append(given_error(refused, status, at, NOT_A_NODE))
        elif at is not None and good and _size(answer.result):
            reply.results.setdefault(at, answer.result)
    if not good and not reply.errors:
        reply.errors.append(status_error(b"", status, NOT_A_NODE))
    return reply


def _split(body: bytes) -> list[_Answer]:
    """Find the answers with the compiled core; return nothing if that is left to the decoders."""
    if len(body) < _LARGE or (core := installed().module) is None:
        return []
    view = memoryview(body)
    return [_Answer(at, Raw(view[start:end])) for at, start, end in core.split(body) or ()]


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


class JsonRpc:
    """Any number of calls to one URL, in one request."""

    not_a_node = NOT_A_NODE
    counts_calls = True

    def shares(self, call: Call) -> bool:
        return True

    def joins(self, last: Call, call: Call) -> bool:
        return True

    def counted(self, batch: Mapping[int, Call]) -> dict[int, str]:
        return {at: call.method for at, call in batch.items()}

    def request(self, batch: Mapping[int, Call]) -> WireRequest:
        return WireRequest("", encode(batch))

    def read(self, body: bytes, status: int, batch: Mapping[int, Call]) -> BatchReply:
        return read(body, status, batch.keys())


JSON_RPC = JsonRpc()
