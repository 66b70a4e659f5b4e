"""What a pool asks EVM nodes on its own."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Raw, Struct

from gapless.providers import JSON_RPC, Call, HeadNotice, HeadSubscription


class _Header(Struct, gc=False):
    number: str
    hash: str


class _Params(Struct, gc=False):
    result: _Header


class _Notice(Struct, gc=False):
    params: _Params


_notice = msgspec.json.Decoder(_Notice).decode


def read_notice(message: bytes) -> HeadNotice | None:
    """Return the head that a message announces; None if it is of another kind."""
    try:
        header = _notice(message).params.result
        return HeadNotice(int(header.number, 16), bytes.fromhex(header.hash.removeprefix("0x")))
    except (msgspec.MsgspecError, ValueError):
        return None


class EvmQueries:
    chain = Call("eth_chainId")
    head = Call("eth_blockNumber")
    wire = JSON_RPC
    subscription = HeadSubscription(Call("eth_subscribe", ("newHeads",)), read_notice)

    def chain_id(self, answer: Raw) -> int | None:
        return _number(answer)

    def height(self, answer: Raw) -> int | None:
        return _number(answer)

    def about(self, call: Call, height: int) -> Call | None:
        assert call.height is not None
        params: list[Any] = [*call.params]
        if (own := hex(call.height)) in params:  # first or, about an account, last
            params[params.index(own)] = hex(height)
            return Call(call.method, tuple(params), height)
        first = params[0] if params else None
        if isinstance(first, dict) and "fromBlock" in first:
            block = {"fromBlock": hex(height), "toBlock": hex(height)}
            return Call(call.method, ({**first, **block},), height)
        return None


QUERIES = EvmQueries()


def _number(answer: Raw) -> int | None:
    try:
        return int(msgspec.json.decode(answer, type=str), 16)
    except (msgspec.MsgspecError, ValueError):
        return None
