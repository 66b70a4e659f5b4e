"""Movements of real blocks equal what other indexers decoded, where their rules are the same.

Where they differ, the vectors say so: our rule requires indexed parties, and no data beside four
topics; it knows no ERC-404.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from gapless.chains import find_network
from gapless.chains.evm.decode.structs import parse_block, parse_receipts
from gapless.chains.evm.decode.tables import decode_blocks
from gapless.chains.evm.transfers import transfers
from gapless.chains.evm.wallet_rules import EvmWalletRules
from gapless.chains.movements import Movement, MovementKind
from gapless.core.errors import BadAnswer
from gapless.schema.arrow import Tables
from tests.data.recorded import DATA, RealBlock, real_blocks, with_blocks
from tests.evm import evm_network
from tests.unit.evm.wallet_stage import Sent, moved, rows_of

RULES = EvmWalletRules()
VECTORS = DATA / "tokens" / "token_transfer_vectors.json"
ETL = DATA / "etl"
TOKENS = (MovementKind.TOKEN, MovementKind.NFT)
DEFECTIVE = {"ethereum-3918649", "ethereum-13367153"}
OURS_ALONE = {
    "ERC-721 (4 topics) although data is non-empty",
    "pre-standard ERC-721: Transfer with NO indexed args (1 topic, 96 bytes)",
    "ERC-404 ERC20Transfer",
    "ERC-404 ERC721Transfer",
}
"""Vectors in which another indexer sees a transfer, and we do not."""

Transfer = tuple[bytes, bytes, bytes, int, int, int]  # …, transaction, position of the log


def everybody(rows: Tables) -> set[bytes]:
    """Return all addresses in columns where a wallet is looked for."""
    return {
        value[len(it.padding) :]
        for it in RULES.lookups
        for value in rows[it.table][it.column].to_pylist()
        if value is not None and value.startswith(it.padding)
    }


def decoded(real: RealBlock) -> Tables:
    block = parse_block(msgspec.json.encode(real.block))
    return decode_blocks(
        [block], [parse_receipts(msgspec.json.encode(real.receipts))], real.chain_id
    )


def movements_of(real: RealBlock, rows: Tables) -> list[Movement]:
    return RULES.movements(rows, find_network(real.chain_id), everybody(rows))


def as_transfers(movements: Iterable[Movement]) -> set[Transfer]:
    return {
        (
            *(it.token, it.sender or bytes(20), it.receiver or bytes(20)),
            it.amount if it.token_id is None else it.token_id,
            *(it.transaction_index, it.position),
        )
        for it in movements
        if it.kind in TOKENS
    }


def address(text: str) -> bytes:
    return bytes.fromhex(text[-40:])


@with_blocks
def test_another_indexer_finds_the_same_transfers() -> None:
    count = 0
    for real in real_blocks():
        if real.peer_token_transfers is None:
            continue
        rows = decoded(real)
        names = ("transaction_index", "log_index", "log_position")
        columns = (rows["logs"][name].to_pylist() for name in names)
        positions = {(index, log): at for index, log, at in zip(*columns, strict=True)}
        theirs = set[Transfer]()
        for it in real.peer_token_transfers:  # who leave zeros out
            parties = (address(it[key]) for key in ("tokenAddress", "fromAddress", "toAddress"))
            index, log = int(it.get("transactionIndex", 0)), int(it.get("logIndex", 0))
            value = it["erc20"].get("value", 0) if "erc20" in it else it["erc721"]["tokenId"]
            token, sender, receiver = parties
            theirs.add((token, sender, receiver, int(value), index, positions[index, log]))
        assert as_transfers(movements_of(real, rows)) == theirs, str(real)
        count += len(theirs)
    assert count == 1223


@with_blocks
def test_the_rule_of_ethereum_etl_finds_the_same_in_real_blocks() -> None:
    """None of these blocks has an old transfer whose parties are not indexed."""
    count, kinds = 0, set[str]()
    for real in real_blocks():
        if real.receipts is None or str(real) in DEFECTIVE:
            continue
        rows = decoded(real)
        found = movements_of(real, rows)
        kinds |= {it.kind.value for it in found}
        names = ("token_address", "from_address", "to_address")
        theirs = {
            (*(it[name] for name in names), int.from_bytes(it["value"], "big"), *place(it))
            for it in transfers(rows["logs"]).to_pylist()
        }
        assert as_transfers(found) == theirs, str(real)
        count += len(theirs)
    assert count == 2788
    assert kinds == {
        *("native", "fee", "internal", "token", "nft", "multi_token"),
        *("wrap", "unwrap", "withdrawal", "mint"),
    }


def place(row: dict[str, Any]) -> tuple[int, int]:
    return row["transaction_index"], row["log_position"]


@with_blocks
def test_fees_of_real_receipts() -> None:
    """Of every transaction but deposits, by arithmetic on the JSON; rollups add a fee for L1."""
    layer_one = 0
    for real in real_blocks():
        if real.receipts is None or str(real) in DEFECTIVE or "tempo" in real.chain:
            continue
        expected = {}
        sent = {it["hash"]: it for it in real.block["transactions"]}
        for it in real.receipts:
            name = it["transactionHash"]
            price = it.get("effectiveGasPrice") or sent[name]["gasPrice"]
            fee = int(it["gasUsed"], 16) * int(price, 16)
            fee += int(it.get("blobGasUsed", "0x0"), 16) * int(it.get("blobGasPrice", "0x0"), 16)
            first = int(it.get("l1Fee") or "0x0", 0)  # some wrote it in decimal
            layer_one += first
            if sent[name].get("type") != "0x7e" and int(sent[name]["from"], 16):
                expected[bytes.fromhex(name[2:])] = fee + first
        found = movements_of(real, decoded(real))
        fees = {it.transaction_hash: it.amount for it in found if it.kind is MovementKind.FEE}
        assert fees == expected, str(real)
    assert layer_one > 0


@with_blocks
def test_a_fee_that_is_paid_with_a_token_is_a_transfer() -> None:
    real = next(it for it in real_blocks() if str(it) == "tempo-17708868")
    found = movements_of(real, decoded(real))
    manager = bytes.fromhex("feec000000000000000000000000000000000000")
    fees = [it for it in found if it.kind is MovementKind.FEE]
    paid = [it for it in found if it.receiver == manager]
    assert [it.amount for it in fees] == [0, 0]
    assert [(it.transaction_index, it.sender) for it in paid] == [
        (it.transaction_index, it.sender) for it in fees
    ]


@with_blocks
def test_incomplete_blocks_are_not_decoded() -> None:
    for real in real_blocks():
        if str(real) in DEFECTIVE:
            with pytest.raises(BadAnswer):
                decoded(real)


def _vectors() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (
        json.loads(VECTORS.read_text())["vectors"] if VECTORS.exists() else []
    )
    return found


@pytest.mark.skipif(not VECTORS.exists(), reason="there are no recorded vectors")
@pytest.mark.parametrize("vector", _vectors(), ids=lambda it: it["name"])
def test_vectors_of_another_indexer(vector: dict[str, Any]) -> None:
    log = vector["log"]
    topics = [f"0x{topic[2:]:0>64}" for topic in log["topics"]]
    rows = rows_of(Sent(events=[{**log, "topics": topics}]))
    network = replace(evm_network("ethereum"), wrapped=address(log["address"]))
    found = [
        it
        for it in moved(rows, *everybody(rows), network=network)
        if it.kind not in (MovementKind.FEE, MovementKind.INTERNAL)
    ]
    expected = [] if vector["name"] in OURS_ALONE else vector["expected"]
    assert [seen(it) for it in found] == [known(it) for it in expected]


def seen(it: Movement) -> tuple[bytes, bytes, int, int | None]:
    return it.sender or bytes(20), it.receiver or bytes(20), it.amount, it.token_id


def known(it: dict[str, Any]) -> tuple[bytes, bytes, int, int | None]:
    (token_id,) = it["ids"] or (None,)
    amount = it["amounts"][0] if it.get("amounts") else it["amount"] or 1
    return (
        *(address(it["from"]), address(it["to"]), int(amount)),
        None if token_id is None else int(token_id),
    )


@pytest.mark.skipif(not ETL.exists(), reason="there are no recorded files of ethereum-etl")
def test_expected_transfers_of_ethereum_etl() -> None:
    folder = ETL / "test_extract_token_transfers_job" / "logs"
    with (folder / "logs.csv").open() as file:
        logs = [{**row, "topics": row["topics"].split(",")} for row in csv.DictReader(file)]
    names = ("token_address", "from_address", "to_address")
    with (folder / "expected_token_transfers.csv").open() as file:
        expected = [
            (*(address(it[name]) for name in names), int(it["value"]))
            for it in csv.DictReader(file)
        ]
    events = [{key: it[key] for key in ("address", "topics", "data")} for it in logs]
    rows = rows_of(Sent(events=events))
    found = [it for it in moved(rows, *everybody(rows)) if it.kind is MovementKind.TOKEN]
    assert [(it.token, it.sender, it.receiver, it.amount) for it in found] == expected
