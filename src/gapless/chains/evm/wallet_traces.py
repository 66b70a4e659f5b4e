"""Reads traces: which calls within transactions moved coins.

Nodes have two forms. `trace_block` lists all calls of a block, each with the path that led to it.
`debug_traceBlockByNumber` with its `callTracer` nests the calls of each transaction.

Coins move with a plain call, with the creation of a contract, and when a contract destroys itself.
A delegated call repeats the value of its caller and moves nothing. If a call fails, so does all
that happened within it. The outermost call is the transaction itself, and is not returned.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType, field

from gapless.chains.evm.decode.structs import UNREADABLE
from gapless.chains.movements import InnerTransfer, TracedTransaction
from gapless.core.errors import BadAnswer

TRACE_BLOCK, DEBUG_TRACE_BLOCK = "trace_block", "debug_traceBlockByNumber"
TRACER = {"tracer": "callTracer"}
_MOVING = frozenset({"CALL", "CREATE", "CREATE2", "SELFDESTRUCT"})

Path = tuple[int, ...]


class _Action(Struct, rename="camel"):
    sender: str = field(default="", name="from")
    to: str | None = None
    value: str = "0x0"
    call_type: str = "call"
    address: str = ""  # of a contract that destroys itself
    refund_address: str = ""
    balance: str = "0x0"


class _Result(Struct):
    address: str = ""


class _Listed(Struct, rename="camel"):
    """A call of `trace_block`."""

    action: _Action
    type: str
    trace_address: tuple[int, ...] = ()
    transaction_hash: str | None = None  # none for the reward of a miner
    result: _Result | None = None
    error: str | None = None


class _Nested(Struct):
    """A call of the `callTracer`."""

    type: str
    sender: str = field(default="", name="from")
    to: str | None = None
    value: str | None = None
    error: str | UnsetType = UNSET
    calls: Sequence[_Nested] = ()


class _Transaction(Struct):
    result: _Nested
    hash: str = field(name="txHash")


_listed = msgspec.json.Decoder(list[_Listed]).decode
_transactions = msgspec.json.Decoder(list[_Transaction]).decode


def read_traces(method: str, answer: Raw) -> list[TracedTransaction]:
    """Return the transactions of a block; raise `BadAnswer` if they cannot be read."""
    try:
        if method == TRACE_BLOCK:
            return _of_list(_listed(answer))
        return [
            TracedTransaction(_bytes(it.hash), [*_within(it.result)])
            for it in _transactions(answer)
        ]
    except (*UNREADABLE, ValueError) as error:
        raise BadAnswer(f"the answer to `{method}` is not a list of calls") from error


def _of_list(calls: Sequence[_Listed]) -> list[TracedTransaction]:
    found: dict[str, list[InnerTransfer]] = {}
    failed: set[tuple[str, Path]] = set()
    for it in calls:
        name, path = it.transaction_hash, it.trace_address
        if name is None:
            continue
        its = found.setdefault(name, [])
        if it.error is not None or (path and (name, path[:-1]) in failed):
            failed.add((name, path))
        elif path and (transfer := _moved(it)) is not None and transfer.amount:
            its.append(transfer)
    return [TracedTransaction(_bytes(name), its) for name, its in found.items()]


def _moved(it: _Listed) -> InnerTransfer | None:
    action = it.action
    if it.type == "suicide":
        return _transfer(action.address, action.refund_address, action.balance)
    if it.type == "create":
        return _transfer(
            action.sender, "" if it.result is None else it.result.address, action.value
        )
    if it.type == "call" and action.call_type == "call":
        return _transfer(action.sender, action.to, action.value)
    return None


def _within(call: _Nested) -> Iterator[InnerTransfer]:
    """Yield what calls within a call moved, unless it failed."""
    if call.error is not UNSET:
        return
    for it in call.calls:
        if it.error is not UNSET:
            continue
        if it.type in _MOVING:
            transfer = _transfer(it.sender, it.to, it.value or "0x0")
            if transfer.amount:
                yield transfer
        yield from _within(it)


def _transfer(sender: str, receiver: str | None, amount: str) -> InnerTransfer:
    return InnerTransfer(_bytes(sender), _bytes(receiver or "0x"), int(amount, 16))


def _bytes(text: str) -> bytes:
    return bytes.fromhex(text.removeprefix("0x"))
