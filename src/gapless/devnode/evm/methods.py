"""The JSON-RPC methods, each returning its result as JSON."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import msgspec
from msgspec import Raw

from gapless.devnode.evm.arguments import INVALID, argument, block_of, flag, hash_of, height_of
from gapless.devnode.evm.filters import matching
from gapless.devnode.limits import CallRefused
from gapless.devnode.view import NULL, View

Handler = Callable[[View, list[Any]], bytes]
_OF_ONE_BLOCK = frozenset(
    {"eth_getBlockByNumber", "eth_getBlockReceipts", "trace_block", "debug_traceBlockByNumber"}
)
_BODY = frozenset({"size", "totalDifficulty", "transactions", "uncles", "withdrawals"})

_raws = msgspec.json.Decoder(list[Raw]).decode
_members = msgspec.json.Decoder(dict[str, Raw]).decode
_parameters = msgspec.json.Decoder().decode


def answer(
    view: View, method: str, params: Raw, more: Mapping[str, Handler] = MappingProxyType({})
) -> bytes:
    """The result of a call as JSON; raises `CallRefused` if there is none.

    `more` are methods that only some nodes have.
    """
    handler = METHODS.get(method) or more.get(method)
    if handler is None or method in view.limits.missing:
        raise unknown(method)
    try:
        given = _parameters(params) if bytes(params) != NULL else []
    except (msgspec.MsgspecError, UnicodeDecodeError):
        raise CallRefused(INVALID, "invalid argument 0: no JSON") from None
    if not isinstance(given, list):
        raise CallRefused(INVALID, "non-array args")
    return handler(view, given)


def unknown(method: str) -> CallRefused:
    return CallRefused(-32601, f"the method {method} does not exist/is not available")


def heights_in(view: View, method: str, params: Raw) -> tuple[int, int] | None:
    """The heights that a call is about, as far as it names them."""
    try:
        given = _parameters(params)
        if method in _OF_ONE_BLOCK:
            height = height_of(view, given[0])
            return height, height
        if method == "eth_getLogs":
            return _range(view, given[0])
        if method == "eth_getBlockByHash" and isinstance(given[0], str):
            found = view.height_of(given[0])
            return None if found is None else (found, found)
    except (CallRefused, IndexError, KeyError, TypeError, msgspec.MsgspecError):
        return None
    return None


def header(block: bytes) -> bytes:
    """The header of a block, as it is announced to subscribers."""
    members = _members(block)
    kept = {name: value for name, value in members.items() if name not in _BODY}
    return msgspec.json.encode(kept)


def _block_by_number(view: View, params: list[Any]) -> bytes:
    height, full = height_of(view, argument(params, 0)), flag(params, 1)
    return _block(view, height, full) if _is_there(view, height) else NULL


def _block_by_hash(view: View, params: list[Any]) -> bytes:
    height, full = view.height_of(hash_of(argument(params, 0))), flag(params, 1)
    return NULL if height is None or not _is_there(view, height) else _block(view, height, full)


def _block_receipts(view: View, params: list[Any]) -> bytes:
    height = block_of(view, argument(params, 0))
    return NULL if height is None or not _is_there(view, height) else view.receipts(height)


def _transaction_receipt(view: View, params: list[Any]) -> bytes:
    place = view.transaction(hash_of(argument(params, 0)))
    if place is None or not _is_there(view, place[0]):
        return NULL
    receipts = _raws(view.receipts(place[0]))
    return bytes(receipts[place[1]]) if place[1] < len(receipts) else NULL


def _logs(view: View, params: list[Any]) -> bytes:
    wanted = argument(params, 0)
    if not isinstance(wanted, dict):
        raise CallRefused(INVALID, "invalid argument 0: not a filter")
    first, last = _range(view, wanted)
    most = view.limits.max_range
    if most is not None and last - first + 1 > most:
        gaps = {"asked": last - first + 1, "most": most, "low": first, "high": first + most - 1}
        raise view.provider.range.refusal(**gaps)
    found: list[bytes] = []
    for height in range(first, min(last, view.head) + 1):
        if not _is_there(view, height):
            continue
        before = len(found)
        found += matching(view.receipts(height), wanted)
        most = view.limits.max_results
        if most is not None and len(found) > most:
            fits = max(first, height - 1) if before else first
            gaps = {"asked": len(found), "most": most, "low": first, "high": fits}
            raise view.provider.results.refusal(**gaps)
    return b"[" + b",".join(found) + b"]"


METHODS: Mapping[str, Handler] = {
    "eth_blockNumber": lambda view, _: f'"{view.head:#x}"'.encode(),
    "eth_chainId": lambda view, _: f'"{view.chain.chain_id:#x}"'.encode(),
    "eth_getBlockByHash": _block_by_hash,
    "eth_getBlockByNumber": _block_by_number,
    "eth_getBlockReceipts": _block_receipts,
    "eth_getLogs": _logs,
    "eth_getTransactionReceipt": _transaction_receipt,
    "net_version": lambda view, _: f'"{view.chain.chain_id}"'.encode(),
    "web3_clientVersion": lambda _, __: b'"gapless-devnode/v1"',
}


def _range(view: View, wanted: dict[str, Any]) -> tuple[int, int]:
    block_hash = wanted.get("blockHash")
    if block_hash is not None:
        if "fromBlock" in wanted or "toBlock" in wanted:
            raise CallRefused(
                INVALID,
                "invalid argument 0: cannot specify both BlockHash and FromBlock/ToBlock,"
                " choose one or the other",
            )
        height = view.height_of(hash_of(block_hash))
        if height is None or height > view.head:
            raise CallRefused(-32000, "unknown block")
        return height, height
    first = height_of(view, wanted.get("fromBlock") or "latest")
    last = height_of(view, wanted.get("toBlock") or "latest")
    if first > last:
        raise CallRefused(INVALID, "invalid block range params")
    if last > view.head and view.limits.strict_head:
        raise CallRefused(INVALID, "block range extends beyond current head block")
    return first, last


def _is_there(view: View, height: int) -> bool:
    if height < view.limits.pruned_below:
        if view.limits.pruned_null:
            return False
        raise CallRefused(4444, "pruned history unavailable")
    return view.has(height)


def _block(view: View, height: int, full: bool) -> bytes:
    block = view.block(height)
    if full:
        return block
    members = _members(block)
    members["transactions"] = Raw(msgspec.json.encode(view.chain.names(block).transactions))
    return msgspec.json.encode(members)
