"""Requests as bytes, and what can be read from answers, however odd they are."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gapless.providers.calls import BatchReply, Call, MalformedReply
from gapless.providers.envelope import encode, read
from gapless.providers.provider_errors import Reaction

IDS = (0, 1, 2)


def heard(answer: Any, status: int = 200, ids: tuple[int, ...] = IDS) -> BatchReply:
    body = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
    return read(body, status, ids)


def results(found: BatchReply) -> dict[int, Any]:
    return {at: json.loads(bytes(raw)) for at, raw in found.results.items()}


def reactions(found: BatchReply) -> list[tuple[int | None, Reaction]]:
    return [(each.call, each.refusal.reaction) for each in found.errors]


def test_one_call_is_an_object_and_several_are_a_list() -> None:
    one, two = Call("eth_chainId"), Call("eth_getBlockByNumber", ("0x1", True), 1)
    assert json.loads(encode({7: one})) == {
        "jsonrpc": "2.0", "id": 7, "method": "eth_chainId", "params": [],
    }  # fmt: skip
    assert [(each["id"], each["params"]) for each in json.loads(encode({3: one, 1: two}))] == [
        (3, []), (1, ["0x1", True]),
    ]  # fmt: skip


def test_answers_are_matched_by_id_in_any_order() -> None:
    found = heard([{"id": 2, "result": "c"}, {"id": "0", "result": None}, {"id": 1.0, "result": 5}])
    assert results(found) == {0: None, 1: 5, 2: "c"}
    assert not found.errors


def test_answers_to_other_requests_are_ignored() -> None:
    odd = [{"id": 9, "result": 1}, {"id": None, "result": 1}, {"id": "x", "result": 1}, {"id": 1}]
    assert heard(odd) == BatchReply()
    assert heard([]) == BatchReply()
    assert heard({"id": 5, "result": 1}, ids=(4,)) == BatchReply()


def test_an_error_may_come_with_a_null_result() -> None:
    error = {"code": -32601, "message": "the method x does not exist/is not available"}
    found = heard(
        [{"id": 0, "result": None, "error": error}, {"id": 1, "result": 1, "error": None}]
    )
    assert reactions(found) == [(0, Reaction.OTHER_METHOD)]
    assert results(found) == {1: 1}


@pytest.mark.parametrize(
    ("answer", "status", "reaction"),
    [
        ({"id": None, "error": {"code": -32000, "message": "internal error"}}, 200, "AGAIN"),
        ({"id": 0, "error": {"code": 429, "message": "too many requests"}}, 429, "SLOW_DOWN"),
        ({"Error": "lack of computing resources"}, 200, "SLOW_DOWN"),
        ({"error": "daily request count exceeded"}, 200, "SWITCH"),
        ({"error": {"code": -32602, "message": "invalid params",
                    "data": {"payload": "range 9 is bigger than range limit 5"}}},
         200, "SMALLER_RANGE"),
        (b"<html>rate limit</html>", 502, "AGAIN"),
        (b"<html>archive</html>", 429, "SLOW_DOWN"),
        (b"", 503, "AGAIN"),
        (b"Too Many Requests", 429, "SLOW_DOWN"),
        (b"Payload Too Large", 413, "SMALLER_RANGE"),
        (b"Unauthorized", 401, "SWITCH"),
        ({"id": 0, "result": "0x1"}, 500, "AGAIN"),
        ({}, 404, "SWITCH"),
    ],
)  # fmt: skip
def test_one_error_object_applies_to_the_whole_batch(
    answer: Any, status: int, reaction: str
) -> None:
    found = heard(answer, status)
    assert not found.results
    assert [each.refusal.reaction for each in found.errors] == [Reaction[reaction]]


@pytest.mark.parametrize("body", [b"", b"{", b"[{]", b"<html>", b"7", b'"x"', b"\xff", b"[" * 5000])
def test_anything_but_an_answer_is_unreadable(body: bytes) -> None:
    with pytest.raises(MalformedReply):
        heard(body)


def test_an_oddly_shaped_error_is_still_an_error() -> None:
    for error in ("words", ["words"], {"code": "x", "message": "words"}, {"message": 5}):
        found = heard([{"id": 1, "error": error}])
        assert reactions(found) == [(1, Reaction.AGAIN)]
