"""How EVM nodes are asked and answer: JSON-RPC, alone or in batches, at any path."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Raw

from gapless.devnode.chain import Chain
from gapless.devnode.dialect import Asked, CallOutcome
from gapless.devnode.evm import methods
from gapless.devnode.evm.accounts import Accounts
from gapless.devnode.evm.state_methods import BLOCK_AT, state_height, state_methods
from gapless.devnode.evm.trace_methods import TRACES, trace_methods
from gapless.devnode.faults import Fault
from gapless.devnode.limits import CallRefused
from gapless.devnode.view import NULL, MethodCall, View

_LISTS = frozenset({"eth_getBlockReceipts", "eth_getLogs"})
_BLOCKS = frozenset({"eth_getBlockByNumber", "eth_getBlockByHash"})
_STATE = frozenset({"eth_getBalance", "eth_getTransactionCount", "eth_getCode", "eth_call"})
_UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)

_call = msgspec.json.Decoder(MethodCall).decode
_items = msgspec.json.Decoder(list[Raw]).decode


class EvmDialect:
    """JSON-RPC, as execution clients speak it."""

    words = "geth"
    header = staticmethod(methods.header)
    logs_key = "logs"
    befallen: Mapping[Fault, frozenset[str]] = {
        Fault.GONE: _LISTS | _BLOCKS | _STATE | TRACES | {"eth_getTransactionReceipt"},
        Fault.NULL: _LISTS | _BLOCKS | _STATE | TRACES | {"eth_getTransactionReceipt"},
        Fault.EMPTY: _LISTS | TRACES,
        Fault.TRUNCATED: _LISTS | _BLOCKS | TRACES,
        Fault.WRONG_BLOCK: _STATE | TRACES | {"eth_getBlockByNumber", "eth_getBlockReceipts"},
        Fault.STALE_HEAD: _LISTS | _STATE | {"eth_getBlockByNumber", "eth_blockNumber"},
        Fault.WRONG_CHAIN: frozenset({"eth_chainId", "net_version"}),
    }

    def __init__(self, accounts: Accounts | None = None) -> None:
        self.accounts = accounts
        self._more: dict[str, methods.Handler] = {}
        if accounts is not None:
            self._more = {**state_methods(accounts), **trace_methods(accounts)}

    def asked(self, path: str, body: bytes, missing: frozenset[str]) -> Asked:
        batch = body.lstrip()[:1] == b"["
        try:
            items = _items(body) if batch else [Raw(body)]
            calls = [_read(item) for item in items]
            if not batch and calls[0] is None:
                msgspec.json.decode(body)
        except _UNREADABLE:
            raise CallRefused(-32700, "parse error", 400) from None
        if not calls:
            raise CallRefused(-32600, "empty batch")
        return Asked(calls, batch)

    def answer(self, view: View, call: MethodCall) -> bytes:
        if call.method in TRACES and not view.limits.traces:
            raise methods.unknown(call.method)
        return methods.answer(view, call.method, call.params, self._more)

    def joined(self, asked: Asked, outcomes: Sequence[CallOutcome]) -> tuple[bytes, int]:
        answers = [_envelope(each) for each in outcomes]
        if asked.is_batch:
            return b"[" + b",".join(answers) + b"]", 200
        refusal = outcomes[0].refusal
        return answers[0], 200 if refusal is None else refusal.status

    def refused(self, refusal: CallRefused) -> bytes:
        return _envelope(CallOutcome(None, refusal=refusal))

    def heights_in(self, view: View, call: MethodCall) -> tuple[int, int] | None:
        if call.method in _STATE:
            height = state_height(view, call.params)
            return None if height is None else (height, height)
        return methods.heights_in(view, call.method, call.params)

    def about(self, call: MethodCall, height: int) -> MethodCall:
        params: list[Any] = msgspec.json.decode(call.params)
        params[BLOCK_AT if call.method in _STATE else 0] = hex(height)
        return MethodCall(call.method, Raw(msgspec.json.encode(params)), call.id)

    def is_about_tip(self, call: MethodCall) -> bool:
        return call.method == "eth_blockNumber" or b'"latest"' in bytes(call.params)

    def nothing(self, call: MethodCall) -> bytes:
        return NULL

    def gone(self) -> CallRefused:
        return CallRefused(-32000, "missing trie node: state is not available")

    def other_chain(self, view: View, call: MethodCall, honest: bytes) -> bytes:
        other = view.chain.chain_id + 1
        return f'"{other:#x}"'.encode() if b"0x" in honest else f'"{other}"'.encode()


def accounts_of(chain: Chain) -> Accounts:
    """The accounts of a chain with an economy."""
    accounts = chain.dialect.accounts if isinstance(chain.dialect, EvmDialect) else None
    if accounts is None:
        raise ValueError("the chain has no economy")
    return accounts


def _read(item: Raw) -> MethodCall | None:
    try:
        return _call(item)
    except _UNREADABLE:
        return None


def _envelope(outcome: CallOutcome) -> bytes:
    call_id = NULL if outcome.call is None else bytes(outcome.call.id)
    if (refusal := outcome.refusal) is None:
        return b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (call_id, outcome.result)
    error = msgspec.json.encode({"code": refusal.code, "message": refusal.message})
    return b'{"jsonrpc":"2.0","id":%b,"error":%b}' % (call_id, error)
