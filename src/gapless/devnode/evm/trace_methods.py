"""The JSON-RPC methods that trace the calls within transactions, in both forms that nodes have.

`trace_block` lists all calls of a block with their paths, as Erigon and Nethermind do, and
`debug_traceBlockByNumber` nests the calls of each transaction, as Geth does. Both also show what
moves nothing: delegated calls, which repeat the value of their caller, and calls that failed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec

from gapless.devnode.evm.accounts import Accounts
from gapless.devnode.evm.arguments import INVALID, argument, block_of
from gapless.devnode.evm.envelopes import Envelope
from gapless.devnode.evm.methods import Handler
from gapless.devnode.evm.outcomes import created
from gapless.devnode.limits import CallRefused
from gapless.devnode.view import View

TRACE_BLOCK, DEBUG_TRACE_BLOCK = "trace_block", "debug_traceBlockByNumber"
TRACES = frozenset({TRACE_BLOCK, DEBUG_TRACE_BLOCK})
_TRACER = "callTracer"
_FAILURE = "execution reverted"

_decode = msgspec.json.decode


class _Call(NamedTuple):
    """A call of a transaction, the transaction itself included."""

    kind: str  # of Geth: `CALL`, `DELEGATECALL`, `CREATE`
    sender: str
    receiver: str
    value: int
    fails: bool = False
    calls: tuple[_Call, ...] = ()


def trace_methods(accounts: Accounts) -> dict[str, Handler]:
    """The methods that trace the blocks of a chain."""

    def traced(view: View, params: list[Any]) -> tuple[int, list[tuple[str, _Call]]]:
        height = block_of(view, argument(params, 0))
        if height is None or not view.has(height):
            raise CallRefused(-32000, f"block #{height} not found")
        envelopes = accounts.contents(view, height).envelopes
        return height, [(it.hash, _called(it)) for it in envelopes]

    def trace_block(view: View, params: list[Any]) -> bytes:
        height, calls = traced(view, params)
        block = _decode(view.block(height))["hash"]
        found = [
            {
                **_listed(call, path),
                "blockHash": block,
                "blockNumber": height,
                "transactionHash": name,
                "transactionPosition": at,
            }
            for at, (name, whole) in enumerate(calls)
            for path, call in _paths(whole)
        ]
        return msgspec.json.encode(found)

    def debug_trace_block(view: View, params: list[Any]) -> bytes:
        options = argument([*params, {}], 1)
        if not isinstance(options, dict) or options.get("tracer") != _TRACER:
            raise CallRefused(INVALID, f"invalid argument 1: the only tracer is {_TRACER}")
        height, calls = traced(view, params)
        if height == 0:
            raise CallRefused(-32000, "genesis is not traceable")
        found = [{"txHash": name, "result": _nested(call)} for name, call in calls]
        return msgspec.json.encode(found)

    return {TRACE_BLOCK: trace_block, DEBUG_TRACE_BLOCK: debug_trace_block}


def _called(it: Envelope) -> _Call:
    draft = it.draft
    receiver = draft.to or created(it) or ""
    inner = [_Call("CALL", each.sender, each.receiver, each.value) for each in draft.calls]
    if draft.to is not None and draft.input != "0x":
        failed = _Call("CALL", receiver, it.sender, 7, fails=True)
        within = _Call("CALL", receiver, it.sender, 5)  # undone with its caller
        undone = _Call("CALL", receiver, receiver, 0, fails=True, calls=(within,))
        inner = [_Call("DELEGATECALL", receiver, receiver, draft.value), failed, undone, *inner]
    kind = "CREATE" if draft.to is None else "CALL"
    return _Call(kind, it.sender, receiver, draft.value, not draft.succeeds, tuple(inner))


def _paths(call: _Call, path: tuple[int, ...] = ()) -> Iterator[tuple[tuple[int, ...], _Call]]:
    yield path, call
    for at, each in enumerate(call.calls):
        yield from _paths(each, (*path, at))


def _listed(call: _Call, path: tuple[int, ...]) -> dict[str, Any]:
    action: dict[str, Any] = {"from": call.sender, "value": hex(call.value), "gas": "0x0"}
    if call.kind == "CREATE":
        action["init"] = "0x"
        result = {"address": call.receiver, "code": "0x", "gasUsed": "0x0"}
    else:
        action |= {"to": call.receiver, "callType": call.kind.lower(), "input": "0x"}
        result = {"output": "0x", "gasUsed": "0x0"}
    kind = "create" if call.kind == "CREATE" else "call"
    ended: dict[str, Any] = {"error": "Reverted"} if call.fails else {"result": result}
    at = {"traceAddress": path, "subtraces": len(call.calls)}
    return {"action": action, "type": kind, **ended, **at}


def _nested(call: _Call) -> dict[str, Any]:
    found: dict[str, Any] = {
        "type": call.kind,
        "from": call.sender,
        "to": call.receiver,
        "value": hex(call.value),
        "gas": "0x0",
        "gasUsed": "0x0",
        "input": "0x",
    }
    if call.fails:
        found["error"] = _FAILURE
    if call.calls:
        found["calls"] = [_nested(each) for each in call.calls]
    return found
