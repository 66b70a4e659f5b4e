"""What TRON's transactions and internal calls do to TRX and TRC-10 tokens.

native     TRX of a transfer, or sent along with a call or the creation of a contract
fee        what the owner burned, also for a transaction that failed, and if it is zero: there is
           one for each transaction whose info is known
asset      units of a TRC-10 token, transferred or sent along with a call
internal   TRX of a call within a transaction, unless it was rejected
reward     what the owner withdrew from its rewards for votes and blocks

A balance is all TRX that belong to an account: those it can spend, and those it has staked,
delegated, or is unstaking. Staking changes none of that: it moves TRX out of `balance` of
`getaccount`, but not away from the account. So staking, unstaking and the withdrawal of unstaked
TRX are not movements, and `wallet_node` adds up all of these fields. Rewards belong to nobody until
they are withdrawn.

Unexplained remain the old exchange and market contracts, the sale of a TRC-10 token by its issuer,
and shielded transfers; and coins wrapped by a contract, whose events are not transfers. A TRC-10
token has the number of its asset as its name, or the text that it had before assets had numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import IntEnum
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from gapless.chains.movements import NOBODY, Movement, MovementKind
from gapless.chains.tron.protobuf import BadMessage, Message
from gapless.chains.wallet_rows import Place

Row = Mapping[str, Any]

TRANSACTION_COLUMNS = (
    *("block_number", "transaction_index", "hash", "contract_type", "owner_address"),
    *("to_address", "contract_address", "amount", "asset", "call_value", "call_asset_value"),
    *("call_asset_id", "data", "parameter", "contract_result", "is_failed", "fee"),
    "withdraw_amount",
)
INTERNAL_COLUMNS = (
    *("block_number", "transaction_index", "internal_position", "caller_address", "to_address"),
    *("call_value", "asset_values", "note", "is_rejected"),
)


class _Type(IntEnum):
    """The types of contract that send something."""

    TRANSFER, TRANSFER_ASSET, CREATE, CALL = 1, 2, 30, 31


_DONE = frozenset({None, 0, 1})  # results; early transactions have none
_NEGATIVE = 1 << 63  # only the genesis of a chain has negative amounts
_MOVING = frozenset({b"call", b"create", b"suicide"})  # other calls stake, vote and delegate
_GRANTS = frozenset(
    bytes.fromhex(selector)
    for selector in (
        "095ea7b3",  # approve(address,uint256)
        "a22cb465",  # setApprovalForAll(address,bool)
        "39509351",  # increaseAllowance(address,uint256)
        "d73dd623",  # increaseApproval(address,uint256)
    )
)


class _AssetValue(msgspec.Struct):
    value: int = msgspec.field(default=0, name="callValue")
    asset: str = msgspec.field(default="", name="tokenId")


_asset_values = msgspec.json.Decoder(list[_AssetValue]).decode


def coin_movements(row: Row, place: Place) -> Iterator[Movement]:
    """Yield what a transaction did, without its logs and internal calls."""
    owner = row["owner_address"] or NOBODY
    is_done = succeeded(row)
    if is_done:
        yield from _sent(row, place, owner)
    if is_done and row["withdraw_amount"]:
        yield place.movement(MovementKind.REWARD, NOBODY, owner, row["withdraw_amount"])
    if row["fee"] is not None and owner != NOBODY:
        called = (row["data"] or b"")[:4]
        is_approval = is_done and row["contract_type"] == _Type.CALL and called in _GRANTS
        yield place.movement(MovementKind.FEE, owner, NOBODY, row["fee"], is_approval=is_approval)


def internal_movements(row: Row, place: Place) -> Iterator[Movement]:
    """Yield what a call within a transaction did."""
    sender, receiver = row["caller_address"], row["to_address"]
    if row["is_rejected"] or row["note"] not in _MOVING or sender is None or receiver is None:
        return
    at = row["internal_position"]
    if row["call_value"]:
        yield place.movement(
            MovementKind.INTERNAL, sender, receiver, row["call_value"], position=at
        )
    for nth, (token, value) in enumerate(_assets(row["asset_values"])):
        if token and 0 < value < _NEGATIVE:
            more = {"token": token.encode(), "position": at, "batch_position": nth}
            yield place.movement(MovementKind.ASSET, sender, receiver, value, **more)


def succeeded(row: Row) -> bool:
    """Whether a transaction succeeded."""
    return row["contract_result"] in _DONE and not row["is_failed"]


def may_send_asset(rows: pa.Table) -> pa.ChunkedArray:
    """Return which transactions can send TRC-10 tokens; all others do not."""
    types = pa.array([_Type.TRANSFER_ASSET, _Type.CREATE], pa.uint64())
    is_called = pc.fill_null(pc.greater(rows["call_asset_value"], 0), False)
    return pc.or_(pc.is_in(rows["contract_type"], value_set=types), is_called)


def _sent(row: Row, place: Place, owner: bytes) -> Iterator[Movement]:
    """Yield the TRX and the TRC-10 tokens that a transaction sends."""
    coins, asset, units, receiver = 0, b"", 0, row["to_address"]
    match row["contract_type"]:
        case _Type.TRANSFER:
            coins = row["amount"]
        case _Type.TRANSFER_ASSET:
            asset, units = row["asset"], row["amount"]
        case _Type.CALL:
            receiver, coins = row["contract_address"], row["call_value"]
            asset, units = _numbered(row["call_asset_id"]), row["call_asset_value"]
        case _Type.CREATE:
            receiver, (coins, units, number) = row["contract_address"], _endowment(row["parameter"])
            asset = _numbered(number)
    if receiver is None:
        return
    if 0 < (coins or 0) < _NEGATIVE:
        yield place.movement(MovementKind.NATIVE, owner, receiver, coins)
    if asset and 0 < (units or 0) < _NEGATIVE:
        yield place.movement(MovementKind.ASSET, owner, receiver, units, token=asset)


def _endowment(parameter: bytes | None) -> tuple[int, int, int]:
    """Return the TRX, the TRC-10 units and their asset that a new contract is created with."""
    try:
        message = Message(parameter or b"")
        return message.message(2).unsigned(5), message.unsigned(3), message.unsigned(4)
    except BadMessage:
        return 0, 0, 0


def _numbered(asset: int) -> bytes:
    return str(asset).encode() if asset else b""


def _assets(text: str | None) -> list[tuple[str, int]]:
    if text is None:
        return []
    try:
        return [(each.asset, each.value) for each in _asset_values(text)]
    except msgspec.MsgspecError:
        return []
