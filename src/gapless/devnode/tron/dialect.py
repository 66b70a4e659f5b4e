"""How TRON nodes are asked and answer: a path for each method, and a JSON body.

As with java-tron, most refusals come with HTTP 200, and some of them as plain text. A range of
blocks is answered block by block, so that each block can have a fault of its own, and so are its
omissions: a block that does not exist is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Raw

from gapless.devnode.dialect import Asked, CallOutcome
from gapless.devnode.faults import Fault
from gapless.devnode.limits import CallRefused, FinalityTags
from gapless.devnode.tron.accounts import TronAccounts
from gapless.devnode.view import MethodCall, View

SOLIDITY_DEPTH = 19
"""Blocks from the latest solid block to the head: it takes 19 of 27 witnesses."""
NOW = "/wallet/getnowblock"
SOLID = "/walletsolidity/getnowblock"
BLOCK = "/wallet/getblockbynum"
BLOCKS = "/wallet/getblockbylimitnext"
INFOS = "/wallet/gettransactioninfobyblocknum"
NODE = "/wallet/getnodeinfo"
ACCOUNT = "/wallet/getaccount"
_CONTROLS = ("/devnode_grow", "/devnode_reorg")
_MOST_BLOCKS = 100
_TEXT, _ERROR = 0, -32000  # codes of refusals: as plain text, or as an object
_NO_SUCH_PATH = b"<html><body><h2>HTTP ERROR 404 Not Found</h2></body></html>"
_NOTHING = b"{}"
_UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)

_object = msgspec.json.Decoder(dict[str, Any]).decode
_members = msgspec.json.Decoder(dict[str, Raw]).decode


class TronDialect:
    """The HTTP API of java-tron."""

    words = "java-tron"
    header = None
    logs_key = "log"
    befallen: Mapping[Fault, frozenset[str]] = {
        Fault.GONE: frozenset({BLOCK, INFOS}),
        Fault.NULL: frozenset({BLOCK, INFOS, SOLID}),
        Fault.EMPTY: frozenset({INFOS}),
        Fault.TRUNCATED: frozenset({BLOCK, INFOS}),
        Fault.WRONG_BLOCK: frozenset({BLOCK, INFOS}),
        Fault.STALE_HEAD: frozenset({BLOCK, INFOS, NOW}),
        Fault.WRONG_CHAIN: frozenset({BLOCK}),
    }

    def __init__(self) -> None:
        self._accounts = TronAccounts()

    def asked(self, path: str, body: bytes, missing: frozenset[str]) -> Asked:
        method = path.partition("?")[0]
        method = method[max(0, method.find("/wallet")) :]  # below any path, as at providers
        if method in _CONTROLS:
            return Asked([MethodCall(method[1:], Raw(body))])
        call = MethodCall(method, Raw(body or _NOTHING))
        if method != BLOCKS or method in missing:
            return Asked([call])
        given = _given(call)
        first, end = _number(given, "startNum"), _number(given, "endNum")
        if first < 0 or not 0 < end - first <= _MOST_BLOCKS:
            return Asked([call])
        calls = [self.about(MethodCall(BLOCK), height) for height in range(first, end)]
        return Asked(calls, is_batch=True, method=BLOCKS)

    def answer(self, view: View, call: MethodCall) -> bytes:
        is_missing = call.method in view.limits.missing
        if call.method == ACCOUNT and not is_missing:
            address = _text(_given(call), "address").lower()
            return msgspec.json.encode(self._accounts.at_head(view, address))
        method = None if is_missing else _METHODS.get(call.method)
        if method is None:
            raise CallRefused(_ERROR, "no such path", 404)
        return method(view, _given(call))

    def joined(self, asked: Asked, outcomes: Sequence[CallOutcome]) -> tuple[bytes, int]:
        for each in outcomes:
            if each.refusal is not None:
                return self.refused(each.refusal), each.refusal.status
        if asked.method is None:
            return outcomes[0].result, 200
        blocks = [each.result for each in outcomes if each.result != _NOTHING]
        return b'{"block":[' + b",".join(blocks) + b"]}", 200

    def refused(self, refusal: CallRefused) -> bytes:
        if refusal.status == 404:
            return _NO_SUCH_PATH
        if refusal.code == _TEXT:
            return refusal.message.encode()
        return msgspec.json.encode({"Error": refusal.message})

    def heights_in(self, view: View, call: MethodCall) -> tuple[int, int] | None:
        if call.method not in (BLOCK, INFOS):
            return None
        height = _number(_given(call), "num")
        return height, height

    def about(self, call: MethodCall, height: int) -> MethodCall:
        return MethodCall(call.method, Raw(b'{"num":%d}' % height), call.id)

    def is_about_tip(self, call: MethodCall) -> bool:
        return call.method in (NOW, SOLID, ACCOUNT)

    def nothing(self, call: MethodCall) -> bytes:
        return b"[]" if call.method == INFOS else _NOTHING

    def gone(self) -> CallRefused:
        return _lite()

    def other_chain(self, view: View, call: MethodCall, honest: bytes) -> bytes:
        """The chain id is in the id of the genesis."""
        block = _members(honest)
        if _number(_given(call), "num") or "blockID" not in block:
            return honest
        genesis = msgspec.json.decode(block["blockID"], type=str)
        other = f"{genesis[:-8]}{view.chain.chain_id ^ 1:08x}"
        return msgspec.json.encode({**block, "blockID": other})


def _lite() -> CallRefused:
    return CallRefused(_TEXT, "this API is closed because this node is a lite fullnode")


def _block(view: View, given: dict[str, Any]) -> bytes:
    height = _number(given, "num")
    return view.block(height) if _is_there(view, height) else _NOTHING


def _infos(view: View, given: dict[str, Any]) -> bytes:
    height = _number(given, "num")
    if height <= 0:
        return _NOTHING
    return view.receipts(height) if _is_there(view, height) else b"[]"


def _solid(view: View, _: dict[str, Any]) -> bytes:
    match view.limits.finality:
        case FinalityTags.ERROR:
            raise CallRefused(_ERROR, "no such path", 404)
        case FinalityTags.NULL:
            return _NOTHING
        case FinalityTags.ZERO:
            return view.block(0)
    return view.block(_solid_height(view))


def _solid_height(view: View) -> int:
    depth = view.limits.finality_depth
    return min(view.head, view.settled(SOLIDITY_DEPTH if depth is None else depth))


def _node(view: View, _: dict[str, Any]) -> bytes:
    found = {
        "block": _place(view, view.head),
        "solidityBlock": _place(view, _solid_height(view)),
        "configNodeInfo": {"codeVersion": "gapless-devnode"},
    }
    return msgspec.json.encode(found)


def _place(view: View, height: int) -> str:
    return f"Num:{height},ID:{view.chain.names(view.block(height)).hash}"


_METHODS: Mapping[str, Callable[[View, dict[str, Any]], bytes]] = {
    NOW: lambda view, _: view.block(view.head),
    SOLID: _solid,
    BLOCK: _block,
    BLOCKS: lambda _, __: _NOTHING,  # a range that is not valid
    INFOS: _infos,
    NODE: _node,
}


def _is_there(view: View, height: int) -> bool:
    """Whether the node has a block; if nothing is kept, not even the genesis is."""
    pruned = view.limits.pruned_below
    if height < pruned and (height > 0 or pruned > view.head):
        if view.limits.pruned_null:
            return False
        raise _lite()
    return height >= 0 and view.has(height)


def _given(call: MethodCall) -> dict[str, Any]:
    try:
        return _object(call.params)
    except _UNREADABLE:
        raise CallRefused(_ERROR, "class org.json.JSONException : syntax error") from None


def _number(given: dict[str, Any], name: str) -> int:
    """A number, which is zero if it is missing."""
    found = given.get(name, 0)
    if not isinstance(found, int):
        raise CallRefused(_ERROR, f"class java.lang.NumberFormatException : {name}")
    return found


def _text(given: dict[str, Any], name: str) -> str:
    found = given.get(name, "")
    if not isinstance(found, str):
        raise CallRefused(_ERROR, f"class java.lang.IllegalArgumentException : {name}")
    return found
