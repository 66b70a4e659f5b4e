"""The JSON-RPC methods about accounts, at the end of any block whose state the node has kept."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import msgspec
from msgspec import Raw

from gapless.devnode.evm.accounts import Accounts, AccountState
from gapless.devnode.evm.arguments import INVALID, address_of, argument, block_of
from gapless.devnode.evm.contracts import Contract, called, contracts_of
from gapless.devnode.evm.methods import Handler
from gapless.devnode.limits import CallRefused
from gapless.devnode.view import View

BLOCK_AT = 1
"""The position of the argument that says at the end of which block."""
_BYTES = re.compile(r"0x(?:[0-9a-fA-F]{2})*")

_root = msgspec.json.Decoder(dict[str, Raw]).decode


def state_methods(accounts: Accounts) -> dict[str, Handler]:
    """The methods about the accounts of a chain."""

    def about(read: Callable[[AccountState, str], str]) -> Handler:
        def handler(view: View, params: list[Any]) -> bytes:
            account = address_of(argument(params, 0))
            return _text(read(_state(accounts, view, argument(params, BLOCK_AT)), account))

        return handler

    return {
        "eth_getBalance": about(lambda state, account: hex(state.balance(account))),
        "eth_getTransactionCount": about(lambda state, account: hex(state.nonce(account))),
        "eth_getCode": about(lambda state, account: state.code(account) or "0x"),
        "eth_call": partial(_call, accounts, contracts_of(accounts.world)),
    }


def state_height(view: View, params: Raw) -> int | None:
    """The height that a call of these methods is about, if it says one."""
    try:
        return block_of(view, msgspec.json.decode(params)[BLOCK_AT])
    except (CallRefused, IndexError, KeyError, TypeError, msgspec.MsgspecError):
        return None


def _call(
    accounts: Accounts, contracts: Mapping[str, Contract], view: View, params: list[Any]
) -> bytes:
    given = argument(params, 0)
    if not isinstance(given, dict):
        raise CallRefused(INVALID, "invalid argument 0: not a transaction")
    to, data = address_of(given.get("to")), given.get("input") or given.get("data") or "0x"
    if not isinstance(data, str) or not _BYTES.fullmatch(data):
        raise CallRefused(INVALID, "invalid argument 0: not bytes in hex")
    state = _state(accounts, view, argument([*params, "latest"], BLOCK_AT))
    if not state.code(to):
        return _text("0x")
    result = called(contracts.get(to, {}), state, data[2:])
    if result is None:
        raise CallRefused(-32000, "execution reverted")
    return _text(f"0x{result}")


def _state(accounts: Accounts, view: View, which: object) -> AccountState:
    height = block_of(view, which)
    if height is None or not view.has(height):
        raise CallRefused(-32000, "header not found")
    kept = view.limits.state_blocks
    if kept is not None and height <= view.head - kept:
        root = msgspec.json.decode(_root(view.block(height))["stateRoot"], type=str)
        raise CallRefused(
            -32000,
            f"missing trie node {root[2:]} (path ) state {root} is not available, not found",
        )
    return accounts.at(view, height)


def _text(text: str) -> bytes:
    return f'"{text}"'.encode()
