"""Both forms of traces say which calls moved coins, and which only look as if."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec import Raw

from gapless.chains.evm.wallet_traces import DEBUG_TRACE_BLOCK, TRACE_BLOCK, read_traces
from gapless.chains.movements import InnerTransfer
from gapless.core.errors import BadAnswer

HASH = "0x" + "ab" * 32
A, B, C, D = (f"0x{digit * 40}" for digit in "1234")


def listed(path: list[int], kind: str = "call", error: str | None = None, **action: Any) -> Any:
    found = {"action": action, "type": kind, "traceAddress": path, "transactionHash": HASH}
    return {**found, "error": error} if error else {**found, "result": {"address": D}}


def nested(kind: str, sender: str, to: str | None, value: int, *calls: Any, **more: Any) -> Any:
    call = {"type": kind, "from": sender, "to": to, "value": hex(value), "calls": [*calls]}
    return {**call, **more}


def moved(sender: str, receiver: str, amount: int) -> InnerTransfer:
    return InnerTransfer(bytes.fromhex(sender[2:]), bytes.fromhex(receiver[2:]), amount)


LISTED = [
    listed([], callType="call", **{"from": A, "to": B, "value": "0x64"}),
    listed([0], callType="delegatecall", **{"from": B, "to": C, "value": "0x64"}),
    listed([0, 0], callType="call", **{"from": B, "to": C, "value": "0x1"}),
    listed([1], callType="call", error="Reverted", **{"from": B, "to": C, "value": "0x2"}),
    listed([1, 0], callType="call", **{"from": C, "to": A, "value": "0x3"}),
    listed([1, 0, 0], callType="call", **{"from": C, "to": A, "value": "0x3"}),
    listed([2], "create", **{"from": B, "value": "0x4"}),
    listed([3], "suicide", address=B, refundAddress=C, balance="0x5"),
    listed([4], callType="callcode", **{"from": B, "to": C, "value": "0x6"}),
    listed([5], callType="call", **{"from": B, "to": C, "value": "0x0"}),
    {"action": {"author": A, "value": "0x9", "rewardType": "block"}, "type": "reward"},
]
NESTED = nested(
    "CALL",
    A,
    B,
    100,
    nested("DELEGATECALL", B, C, 100, nested("CALL", B, C, 1)),
    nested("CALL", B, C, 2, nested("CALL", C, A, 3, nested("CALL", C, A, 3)), error="reverted"),
    nested("CREATE2", B, D, 4),
    nested("SELFDESTRUCT", B, C, 5),
    nested("CALLCODE", B, C, 6),
    nested("CALL", B, C, 0),
    {"type": "STATICCALL", "from": B, "to": C},
)
ANSWERS = {TRACE_BLOCK: LISTED, DEBUG_TRACE_BLOCK: [{"txHash": HASH, "result": NESTED}]}


@pytest.mark.parametrize("method", ANSWERS)
def test_only_calls_that_moved_coins_count(method: str) -> None:
    (found,) = read_traces(method, Raw(json.dumps(ANSWERS[method]).encode()))
    assert found.hash.hex() == HASH[2:]
    assert found.transfers == [moved(B, C, 1), moved(B, D, 4), moved(B, C, 5)]


@pytest.mark.parametrize("method", ANSWERS)
def test_a_failed_transaction_moves_nothing(method: str) -> None:
    failed = {
        TRACE_BLOCK: [{**LISTED[0], "error": "Reverted"}, *LISTED[1:]],
        DEBUG_TRACE_BLOCK: [{"txHash": HASH, "result": {**NESTED, "error": "out of gas"}}],
    }
    (found,) = read_traces(method, Raw(json.dumps(failed[method]).encode()))
    assert found.transfers == []


@pytest.mark.parametrize("method", ANSWERS)
@pytest.mark.parametrize("answer", [None, {}, [1], [{"type": "call"}], "0x"])
def test_anything_else_is_refused(method: str, answer: Any) -> None:
    with pytest.raises(BadAnswer, match=method):
        read_traces(method, Raw(json.dumps(answer).encode()))
