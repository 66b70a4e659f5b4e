"""Rows of `tron_transfers` of recorded transactions equal what others decoded from them."""

from __future__ import annotations

from typing import Any

import pytest

from gapless.chains.level import Level
from gapless.chains.tron.address import base58_of
from gapless.schema.arrow import Tables
from tests.data.test_tron import FOLDER, as_answer, read, real_block, swap, usdt
from tests.data.test_tron_wallet import transfer_info
from tests.unit.tron.answers import TRANSFER_LOG

pytestmark = pytest.mark.skipif(not FOLDER.exists(), reason="there are no recorded TRON answers")


def rows_in(tables: Tables) -> list[dict[str, Any]]:
    """Return the rows of a block, which counts them."""
    rows: list[dict[str, Any]] = tables["tron_transfers"].to_pylist()
    assert tables["tron_blocks"]["transfer_count"].to_pylist() == [len(rows)]
    return rows


def test_55_real_usdt_transfers() -> None:
    """Their infos were not recorded, so that the events are made from what is known of them."""
    facts = usdt()["trc20Txs"]
    sent = [as_answer(bytes.fromhex(each["encodedTx"][2:])) for each in facts]
    infos = [transfer_info(it["txID"], fact) for it, fact in zip(sent, facts, strict=True)]
    found = rows_in(read(real_block() | {"transactions": sent}, infos, level=Level.OFF).tables)
    assert len(found) == 55
    for row, fact in zip(found, facts, strict=True):
        assert (row["kind"], row["transfer_position"], row["log_position"]) == ("token", 0, 0)
        assert row["transaction_hash"].hex() == fact["txId"][2:]
        assert int.from_bytes(row["amount"], "big") == int(fact["amount"])
        named = {"token": "tronTokenEvm", "from": "fromTron", "to": "toTron"}
        for ours, theirs in named.items():
            address = bytes.fromhex(fact[theirs][-40:])
            assert row[f"{ours}_address"] == address
            assert row[f"{ours}_base58"] == base58_of(address)


def test_a_real_swap() -> None:
    info, block = swap()
    found = rows_in(read(block, [info], level=Level.OFF).tables)
    moved = {
        at: log
        for at, log in enumerate(info["log"])
        if log["topics"][0] == TRANSFER_LOG["topics"][0]
    }
    assert [row["log_position"] for row in found] == [*moved]
    assert [row["transfer_position"] for row in found] == [*range(len(moved))]
    for row, log in zip(found, moved.values(), strict=True):
        assert row["amount"].hex() == log["data"]
        assert row["token_address"].hex() == log["address"]
        assert [row[f"{it}_address"].hex() for it in ("from", "to")] == [
            topic[-40:] for topic in log["topics"][1:3]
        ]


def test_assets_of_a_real_block_of_619_transactions() -> None:
    block = real_block()
    contracts = [it["raw_data"]["contract"][0] for it in block["transactions"]]
    theirs = [
        (
            *(at, bytes.fromhex(value["asset_name"]), value["amount"]),
            *(value["owner_address"][2:], value["to_address"][2:]),
        )
        for at, it in enumerate(contracts)
        for value in [it["parameter"]["value"]]
        if it["type"] == "TransferAssetContract"
    ]
    found = [
        (
            *(row["transaction_index"], row["asset"], int.from_bytes(row["amount"], "big")),
            *(row["from_address"].hex(), row["to_address"].hex()),
        )
        for row in rows_in(read(block).tables)
        if row["kind"] == "asset"
    ]
    assert theirs
    assert found == theirs
