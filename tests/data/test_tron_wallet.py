"""Movements of recorded TRON transactions: USDT transfers, a swap, and the block of 619."""

from __future__ import annotations

from collections import Counter

import pytest

from gapless.chains.level import Level
from gapless.chains.movements import Movement
from gapless.chains.tron.wallet_rules import TronWalletRules
from gapless.schema.arrow import Tables
from tests.data.test_tron import (
    FOLDER,
    HEIGHT,
    MAINNET,
    TIME,
    Json,
    as_answer,
    read,
    real_block,
    swap,
    usdt,
)
from tests.unit.tron.answers import TRANSFER_LOG, word

pytestmark = pytest.mark.skipif(not FOLDER.exists(), reason="there are no recorded TRON answers")

RULES = TronWalletRules()


def everybody(rows: Tables) -> set[bytes]:
    return {
        value
        for it in RULES.lookups
        for value in rows[it.table][it.column].to_pylist()
        if value is not None
    }


def movements_of(rows: Tables) -> list[Movement]:
    return RULES.movements(rows, MAINNET, everybody(rows))


def transfer_info(id_: str, fact: Json) -> Json:
    """Return the info of a transfer, with the event that the token announces it with."""
    topics = [
        TRANSFER_LOG["topics"][0],
        *(word(_address(fact[it])) for it in ("fromTron", "toTron")),
    ]
    log = {
        "address": fact["tronTokenEvm"][2:],
        "topics": topics,
        "data": word(int(fact["amount"])),
    }
    return {"id": id_, "blockNumber": HEIGHT, "blockTimeStamp": TIME, "fee": 345_000, "log": [log]}


def _address(text: str) -> bytes:
    return bytes.fromhex(text[-40:])


def test_55_real_usdt_transfers() -> None:
    """Their infos were not recorded, so that the events are made from what is known of them."""
    facts = usdt()["trc20Txs"]
    sent = [as_answer(bytes.fromhex(each["encodedTx"][2:])) for each in facts]
    infos = [transfer_info(it["txID"], fact) for it, fact in zip(sent, facts, strict=True)]
    rows = read(real_block() | {"transactions": sent}, infos, level=Level.OFF).tables
    found = movements_of(rows)
    tokens = [it for it in found if it.kind == "token"]
    fees = [it for it in found if it.kind == "fee"]
    assert len(found) == len(tokens) + len(fees) == 110
    for it, fee, fact in zip(tokens, fees, facts, strict=True):
        assert (it.sender, it.receiver) == (_address(fact["fromTron"]), _address(fact["toTron"]))
        assert (it.amount, it.token) == (int(fact["amount"]), _address(fact["tronTokenEvm"]))
        assert it.transaction_hash.hex() == fact["txId"][2:]
        assert it.initiator == fee.sender
        assert (it.initiator == it.sender) is not fact["isTransferFrom"]


def test_a_real_swap() -> None:
    info, block = swap()
    found = movements_of(read(block, [info], level=Level.OFF).tables)
    is_transfer = [each["topics"][0] == TRANSFER_LOG["topics"][0] for each in info["log"]]
    tokens = [it for it in found if it.kind == "token"]
    assert [it.position for it in tokens] == [at for at, it in enumerate(is_transfer) if it]
    (fee,) = (it for it in found if it.kind == "fee")
    assert fee.amount == info["fee"]
    inner = [it for it in found if it.kind == "internal"]
    values = [
        value["callValue"]
        for each in info.get("internal_transactions", [])
        for value in each["callValueInfo"]
        if value.get("callValue") and "tokenId" not in value
    ]
    assert [it.amount for it in inner] == values


def test_a_real_block_of_619_transactions() -> None:
    block = real_block()
    found = movements_of(read(block).tables)
    contracts = [it["raw_data"]["contract"][0] for it in block["transactions"]]
    values = [(it["type"], it["parameter"]["value"]) for it in contracts]
    coins = [it["amount"] for kind, it in values if kind == "TransferContract"]
    coins += [it["call_value"] for kind, it in values if it.get("call_value")]
    assets = [it for kind, it in values if kind == "TransferAssetContract"]
    kinds = Counter(it.kind.value for it in found)
    assert kinds == {"fee": 619, "native": len(coins), "asset": len(assets)}
    assert sum(it.amount for it in found if it.kind == "native") == sum(coins)
    assert {it.token.hex() for it in found if it.kind == "asset"} == {
        it["asset_name"] for it in assets
    }
