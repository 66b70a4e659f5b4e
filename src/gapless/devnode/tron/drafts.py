"""Drafts of simulated transactions: transfers of TRX and tokens, contract calls, delegation.

A draft is a transaction and its outcome before it is placed in a block. It is drawn from the
block's own random generator, so that a block depends only on the parameters and its height.
"""

from __future__ import annotations

from random import Random
from typing import Any, NamedTuple

from gapless.chains.tron.protobuf import bytes_field, number_field

TRANSFER = "ddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef"
"""The first topic of a TRC-20 transfer."""
SWAP = "d78ad95fa46c994b6551d0da85fc275fe613ce37657fb8d5e3d130840159d822"
SUCCESS, REVERT = "SUCCESS", "REVERT"
_TRANSFER_SELECTOR, _SWAP_SELECTOR = "a9059cbb", "38ed1739"
_CALL_NOTE = b"call".hex()
_FEE_LIMIT = 100_000_000
_WALLETS, _TOKENS, _ASSETS = 400, 6, 4
# Cumulative shares of the kinds of transactions; the rest are transfers of TRX.
_SHARES = ((0.32, "token"), (0.37, "swap"), (0.45, "asset"), (0.57, "delegate"), (0.64, "reclaim"))
_RARE = ((0.66, "freeze"), (0.68, "create"))
_REVERTED = 0.1  # of token transfers


class TronWorld:
    """The accounts of a chain, as hex with the version byte."""

    def __init__(self, seed: int) -> None:
        rng = Random(seed)
        accounts = [f"41{rng.getrandbits(160):040x}" for _ in range(_WALLETS + _TOKENS + 1)]
        self.wallets = accounts[:_WALLETS]
        self.tokens = accounts[_WALLETS:-1]
        self.router = accounts[-1]
        self.assets = [str(1_000_001 + at * 37) for at in range(_ASSETS)]


class TronDraft(NamedTuple):
    """A contract of a transaction, and what it did."""

    number: int  # of its type
    type: str
    value: dict[str, Any]  # as JSON
    message: bytes  # the same, encoded
    result: str = SUCCESS
    fee_limit: int = 0
    contract: str = ""  # that was called
    logs: tuple[dict[str, Any], ...] = ()
    inner: tuple[dict[str, Any], ...] = ()  # internal transactions, without their hashes
    energy: int = 0


def draft(rng: Random, world: TronWorld) -> TronDraft:
    """A transaction of a random kind."""
    lot = rng.random()
    owner, other = rng.sample(world.wallets, 2)
    amount = rng.randint(1, 10**9)
    match next((kind for share, kind in (*_SHARES, *_RARE) if lot < share), "transfer"):
        case "token":
            return _token_transfer(rng, world, owner, other, amount)
        case "swap":
            return _swap(rng, world, owner, amount)
        case "asset":
            return _asset_transfer(rng.choice(world.assets), owner, other, amount)
        case "delegate":
            return _delegation(57, "DelegateResourceContract", owner, other, amount, rng)
        case "reclaim":
            return _delegation(58, "UnDelegateResourceContract", owner, other, amount, rng)
        case "freeze":
            value: dict[str, Any] = {"owner_address": owner, "frozen_balance": amount}
            message = _address(1, owner) + number_field(2, amount)
            return TronDraft(54, "FreezeBalanceV2Contract", value, message)
        case "create":
            value = {"owner_address": owner, "account_address": other}
            return TronDraft(
                0, "AccountCreateContract", value, _address(1, owner) + _address(2, other)
            )
    return transfer(owner, other, amount)


def transfer(owner: str, to: str, amount: int) -> TronDraft:
    """A transfer of TRX."""
    value = {"amount": amount, "owner_address": owner, "to_address": to}
    message = _address(1, owner) + _address(2, to) + number_field(3, amount)
    return TronDraft(1, "TransferContract", value, message)


def _asset_transfer(asset: str, owner: str, to: str, amount: int) -> TronDraft:
    value = {
        "asset_name": asset.encode().hex(),
        "owner_address": owner,
        "to_address": to,
        "amount": amount,
    }
    message = bytes_field(1, asset.encode()) + _address(2, owner) + _address(3, to)
    return TronDraft(2, "TransferAssetContract", value, message + number_field(4, amount))


def _delegation(
    number: int, kind: str, owner: str, receiver: str, balance: int, rng: Random
) -> TronDraft:
    value: dict[str, Any] = {"owner_address": owner, "balance": balance}
    energy = rng.random() < 0.8
    if energy:
        value["resource"] = "ENERGY"
    value["receiver_address"] = receiver
    message = _address(1, owner) + number_field(2, int(energy)) + number_field(3, balance)
    return TronDraft(number, kind, value, message + _address(4, receiver))


def _token_transfer(rng: Random, world: TronWorld, owner: str, to: str, amount: int) -> TronDraft:
    token, reverts = rng.choice(world.tokens), rng.random() < _REVERTED
    data = f"{_TRANSFER_SELECTOR}{to[2:]:0>64}{amount:064x}"
    logs = () if reverts else (_transfer_log(token, owner, to, amount),)
    found = _trigger(owner, token, data, 0, 14_000 + rng.getrandbits(14))
    return found._replace(result=REVERT if reverts else SUCCESS, logs=logs)


def _swap(rng: Random, world: TronWorld, owner: str, amount: int) -> TronDraft:
    """TRX for a token, by a router that pays two other accounts."""
    token, paid = rng.choice(world.tokens), rng.sample(world.wallets, 2)
    data = f"{_SWAP_SELECTOR}{amount:064x}{owner[2:]:0>64}"
    sold = {
        "address": world.router[2:],
        "topics": [SWAP, f"{owner[2:]:0>64}", f"{paid[0][2:]:0>64}"],
        "data": f"{amount:064x}{rng.getrandbits(64):064x}",
    }
    logs = (_transfer_log(token, world.router, owner, rng.getrandbits(60)), sold)
    inner = tuple(
        {
            "caller_address": world.router,
            "transferTo_address": each,
            "callValueInfo": [{"callValue": amount // 3} if at else {}],
            "note": _CALL_NOTE,
        }
        for at, each in enumerate(paid)
    )
    found = _trigger(owner, world.router, data, amount, 90_000 + rng.getrandbits(16))
    return found._replace(logs=logs, inner=inner)


def _trigger(owner: str, contract: str, data: str, paid: int, energy: int) -> TronDraft:
    value: dict[str, Any] = {"data": data, "owner_address": owner, "contract_address": contract}
    if paid:
        value["call_value"] = paid
    message = _address(1, owner) + _address(2, contract) + number_field(3, paid)
    return TronDraft(
        31,
        "TriggerSmartContract",
        value,
        message + bytes_field(4, bytes.fromhex(data)),
        fee_limit=_FEE_LIMIT,
        contract=contract,
        energy=energy,
    )


def _transfer_log(token: str, owner: str, to: str, amount: int) -> dict[str, Any]:
    topics = [TRANSFER, f"{owner[2:]:0>64}", f"{to[2:]:0>64}"]
    return {"address": token[2:], "topics": topics, "data": f"{amount:064x}"}


def _address(number: int, account: str) -> bytes:
    return bytes_field(number, bytes.fromhex(account))
