"""The wire of plain HTTP APIs: one path per method, one JSON body per call.

    Call("/wallet/getblockbynum", ({"num": 5},), 5)   POST /wallet/getblockbynum {"num":5}

Such an API has no batches, but it may answer for several consecutive blocks at once. Then a batch
of calls for single blocks travels as one call of that method (`RangeMethod`), and its answer is
divided among them. So everything that a pool learns about batches applies to ranges of blocks.

An answer has no envelope. Which ones mean that there is no such block, or not yet, is up to the API
(`absent`): they become null, and the caller decides. An object with an error, or a short text that
is recognised as one, is a refusal, whatever the HTTP status. A path that does not exist is a method
that the endpoint lacks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import msgspec
from msgspec import Raw, Struct

from gapless.providers.calls import (
    ABSENT,
    LONGEST_MESSAGE,
    NULL,
    UNREADABLE,
    BatchReply,
    Call,
    CallError,
    MalformedReply,
    given_error,
    status_error,
)
from gapless.providers.provider_errors import Reaction, Refusal, classify
from gapless.providers.wire import WireRequest

_NO_SUCH_PATH = frozenset({404, 405, 501})
_SMALL = 64  # bytes; an answer that means "absent" is no longer


class RangeMethod(NamedTuple):
    """A method that answers calls of another method for several consecutive blocks at once."""

    method: str
    of: str  # the method for one block
    body: Callable[[int, int], Any]  # from the first and the last height
    divide: Callable[[bytes], Mapping[int, Raw]]  # an answer, by height


class _Refused(Struct, gc=False):
    error: Raw = ABSENT
    capital_error: Raw = msgspec.field(default=ABSENT, name="Error")


_encode = msgspec.json.Encoder().encode
_refused = msgspec.json.Decoder(_Refused).decode
_list = msgspec.json.Decoder(list[Raw]).decode


class HttpApi:
    """One call for each request, except for ranges of blocks."""

    counts_calls = False

    def __init__(self, ranges: RangeMethod, absent: frozenset[bytes], not_a_node: str) -> None:
        """`absent` are the answers, without spaces, that mean that there is nothing."""
        self.not_a_node = not_a_node
        self._ranges, self._absent = ranges, absent

    def shares(self, call: Call) -> bool:
        return call.method == self._ranges.of and call.height is not None

    def joins(self, last: Call, call: Call) -> bool:
        if not self.shares(last) or not self.shares(call) or last.height is None:
            return False
        return call.height == last.height + 1

    def counted(self, batch: Mapping[int, Call]) -> dict[int, str]:
        first, call = next(iter(batch.items()))
        return {first: self._ranges.method if len(batch) > 1 else call.method}

    def request(self, batch: Mapping[int, Call]) -> WireRequest:
        calls = [*batch.values()]
        if len(calls) == 1:
            return WireRequest(calls[0].method, _encode(calls[0].params[0]))
        first, last = calls[0].height, calls[-1].height
        assert first is not None
        assert last is not None
        return WireRequest(self._ranges.method, _encode(self._ranges.body(first, last)))

    def read(self, body: bytes, status: int, batch: Mapping[int, Call]) -> BatchReply:
        if (error := self._error(body, status)) is not None:
            return BatchReply(errors=[_attributed(error, batch)])
        if len(body) <= _SMALL and b"".join(body.split()) in self._absent:
            return BatchReply(dict.fromkeys(batch, NULL))
        if len(batch) == 1:
            return BatchReply(dict.fromkeys(batch, Raw(body)))
        try:
            found = self._ranges.divide(body)
        except UNREADABLE as error:
            raise MalformedReply("the answer is not a list of blocks") from error
        results = {at: found.get(call.height or 0, NULL) for at, call in batch.items()}
        return BatchReply(results)

    def _error(self, body: bytes, status: int) -> CallError | None:
        """Return what the response says instead of a result, if anything."""
        good = 200 <= status < 300
        if status in _NO_SUCH_PATH:
            lacks = Refusal(Reaction.OTHER_METHOD)
            message = status_error(body, status, "").message
            return CallError(lacks, message, hint=self.not_a_node)
        try:
            refused = _refusal_in(body)
        except UNREADABLE as error:
            if not good:
                return status_error(body, status, self.not_a_node)
            if (said := _spoken(body)) is not None:
                return said
            raise MalformedReply("the answer is not JSON") from error
        if refused:
            return given_error(refused, status, None, self.not_a_node)
        return None if good else status_error(b"", status, self.not_a_node)


def _refusal_in(body: bytes) -> bytes:
    """Return the error that an answer consists of; empty if it is a result."""
    if body.lstrip()[:1] == b"[":
        _list(body)
        return b""
    found = _refused(body)
    raws = (bytes(each) for each in (found.capital_error, found.error))
    return next((raw for raw in raws if raw not in (b"", b"null", b'""')), b"")


def _spoken(body: bytes) -> CallError | None:
    """Return the refusal that is a plain text in HTTP 200; None if it is not recognised."""
    if len(body) > LONGEST_MESSAGE or body.lstrip()[:1] in (b"", b"{", b"[", b"<"):
        return None
    text = body.decode(errors="replace").strip()
    refusal = classify(text)
    return CallError(refusal, text) if refusal.recognized else None


def _attributed(error: CallError, batch: Mapping[int, Call]) -> CallError:
    """Take the limit of a range for that of a batch."""
    refusal = error.refusal
    if len(batch) > 1 and refusal.reaction is Reaction.SMALLER_RANGE and refusal.most is not None:
        return replace(error, refusal=replace(refusal, reaction=Reaction.SMALLER_BATCH))
    return error
