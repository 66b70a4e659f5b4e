"""Decode a transaction from its `raw_data`, the bytes that its id covers.

A transaction is a contract of some type, with a message as its parameter. The types that move
coins, tokens and resources have columns; the message of any other type is kept as bytes. So is a
message that cannot be read, since the id proves that it is what the owner signed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from gapless.chains.tron.address import base58_of, without_version
from gapless.chains.tron.protobuf import BadMessage, Message

Columns = dict[str, Any]

_ACCOUNT_UPDATE, _SET_ACCOUNT_ID = 10, 19
_TRANSFER, _TRANSFER_ASSET, _TRIGGER = 1, 2, 31
_FREEZE, _UNFREEZE = 11, 12
_FREEZE_V2, _UNFREEZE_V2, _DELEGATE, _UNDELEGATE = 54, 55, 57, 58

# The number of the field with the owner's address, where it is not 1.
_OWNERS = {_TRANSFER_ASSET: 2, _ACCOUNT_UPDATE: 2, _SET_ACCOUNT_ID: 2}
_KNOWN = frozenset(
    {*range(7), *range(8, 21), *range(30, 34), *range(41, 47), 48, 49, *range(51, 60)}
)


# Columns that only some types of contract have.
_ABSENT: Columns = dict.fromkeys(
    (
        *("contract_type", "owner_address", "owner_base58", "to_address", "to_base58"),
        *("contract_address", "contract_base58", "amount", "asset", "resource", "is_locked"),
        *("frozen_duration", "lock_period", "call_value", "call_asset_value", "call_asset_id"),
        *("data", "parameter"),
    )
)


def transaction_columns(raw_data: bytes) -> Columns:
    """Return the columns that follow from `raw_data`; raise `BadMessage` if it is not a message."""
    raw = Message(raw_data)
    return {
        **_ABSENT,
        "timestamp": raw.unsigned(14),
        "expiration": raw.unsigned(8),
        "fee_limit": raw.unsigned(18),
        "ref_block_bytes": raw.octets(1),
        "ref_block_hash": raw.octets(4),
        "memo": raw.octets(10) or None,
        **_contract_columns(raw.items(11)),
    }


def address_columns(name: str, address: bytes | None) -> Columns:
    """Return both columns of an address of 20 bytes."""
    text = None if address is None else base58_of(address)
    return {f"{name}_address": address, f"{name}_base58": text}


def _contract_columns(contracts: list[bytes]) -> Columns:
    """Decode the only contract. The protocol allows for more, but every node refuses them."""
    if len(contracts) != 1:
        return {"permission_id": 0}
    contract = Message(contracts[0])
    kind, value = contract.unsigned(1), contract.message(2).octets(2)
    found: Columns = {"contract_type": kind, "permission_id": contract.unsigned(5)}
    try:
        message = Message(value)
    except BadMessage:
        return {**found, "parameter": value}
    if kind in _KNOWN:
        found |= _address("owner", message, _OWNERS.get(kind, 1))
    if kind in _DECODERS:
        return {**found, **_DECODERS[kind](message)}
    return {**found, "parameter": value}


def _address(name: str, message: Message, number: int) -> Columns:
    return address_columns(name, without_version(message.octets(number)))


def _transfer(it: Message) -> Columns:
    return {**_address("to", it, 2), "amount": it.unsigned(3)}


def _transfer_asset(it: Message) -> Columns:
    return {**_address("to", it, 3), "asset": it.octets(1), "amount": it.unsigned(4)}


def _trigger(it: Message) -> Columns:
    return {
        **_address("contract", it, 2),
        "call_value": it.unsigned(3),
        "data": it.octets(4),
        "call_asset_value": it.unsigned(5),
        "call_asset_id": it.unsigned(6),
    }


def _freeze(it: Message) -> Columns:
    return {"amount": it.unsigned(2), "frozen_duration": it.unsigned(3), **_unfreeze(it)}


def _unfreeze(it: Message) -> Columns:
    return {**_address("to", it, 15), "resource": it.unsigned(10)}


def _stake(it: Message) -> Columns:
    return {"amount": it.unsigned(2), "resource": it.unsigned(3)}


def _delegate(it: Message) -> Columns:
    return {
        **_undelegate(it),
        "is_locked": bool(it.unsigned(5)),
        "lock_period": it.unsigned(6),
    }


def _undelegate(it: Message) -> Columns:
    return {**_address("to", it, 4), "resource": it.unsigned(2), "amount": it.unsigned(3)}


_DECODERS: Mapping[int, Callable[[Message], Columns]] = {
    _TRANSFER: _transfer,
    _TRANSFER_ASSET: _transfer_asset,
    _TRIGGER: _trigger,
    _FREEZE: _freeze,
    _UNFREEZE: _unfreeze,
    _FREEZE_V2: _stake,
    _UNFREEZE_V2: _stake,
    _DELEGATE: _delegate,
    _UNDELEGATE: _undelegate,
}
