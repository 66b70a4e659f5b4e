"""Blocks whose transactions say what a wallet test is about, as rows, and their movements."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from gapless.chains.level import Level
from gapless.chains.movements import Movement
from gapless.chains.tron.networks import TRON_CUSTOM
from gapless.chains.tron.protobuf import bytes_field, number_field
from gapless.chains.tron.wallet_rules import TronWalletRules
from gapless.schema.arrow import Tables
from tests.unit.tron.answers import Json, block, info, raw_data, read, transaction

RULES = TronWalletRules()
ANN, BOB, CAT, ART = (bytes([each]) * 20 for each in (1, 2, 3, 4))
COIN = bytes([3]) * 20  # the contract of `answers.log`
EVERYBODY = (ANN, BOB, CAT, ART, bytes(20))
ASSET = 1_000_001


def full(address: bytes) -> bytes:
    return b"\x41" + address


def transfers(amount: int, sender: bytes = ANN, receiver: bytes = BOB) -> bytes:
    return raw_data(
        *(1, bytes_field(1, full(sender)), bytes_field(2, full(receiver))), number_field(3, amount)
    )


def transfers_asset(amount: int, asset: bytes = b"1000001") -> bytes:
    fields = bytes_field(1, asset), bytes_field(2, full(ANN)), bytes_field(3, full(BOB))
    return raw_data(2, *fields, number_field(4, amount))


def calls(
    value: int = 0, units: int = 0, data: bytes = b"\xa9\x05\x9c\xbb", by: bytes = ANN
) -> bytes:
    return raw_data(
        *(31, bytes_field(1, full(by)), bytes_field(2, full(CAT)), number_field(3, value)),
        *(bytes_field(4, data), number_field(5, units), number_field(6, ASSET if units else 0)),
    )


def creates(value: int = 0, units: int = 0) -> bytes:
    contract = bytes_field(1, full(ANN)) + number_field(5, value)
    return raw_data(
        *(30, bytes_field(1, full(ANN)), bytes_field(2, contract)),
        *(number_field(3, units), number_field(4, ASSET if units else 0)),
    )


def internal(value: int, sender: bytes = CAT, receiver: bytes = BOB, **more: Any) -> Json:
    return {
        "hash": "cd" * 32,
        "caller_address": full(sender).hex(),
        "transferTo_address": full(receiver).hex(),
        "callValueInfo": [{"callValue": value}],
        "note": b"call".hex(),
    } | more


@dataclass(frozen=True)
class Done:
    """A transaction and what its info says."""

    raw: bytes
    info: Json = field(default_factory=dict)
    result: str = "SUCCESS"


def rows_of(*done: Done) -> Tables:
    # The memo makes two equal transactions different.
    sent = [
        transaction(it.raw + bytes_field(10, bytes([at + 1])), ret=[{"contractRet": it.result}])
        for at, it in enumerate(done)
    ]
    infos = [info(each, **it.info) for each, it in zip(sent, done, strict=True)]
    return read(block(sent), infos, level=Level.OFF).tables


def moved(rows: Tables, *addresses: bytes) -> list[Movement]:
    return RULES.movements(rows, TRON_CUSTOM, addresses or EVERYBODY)


def brief(*done: Done) -> list[tuple[str, bytes, bytes, int]]:
    """Return what moved, without the fees of zero."""
    found = moved(rows_of(*done))
    return [
        (it.kind.value, it.sender, it.receiver, it.amount)
        for it in found
        if it.kind != "fee" or it.amount
    ]
