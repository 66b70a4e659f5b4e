"""Rows of `transfers` of real blocks equal what other indexers decoded from the same blocks.

Blockscout alone knows the events of ERC-404; ethereum-etl and chainstorage know no ERC-1155 and no
wrapping.
"""

from __future__ import annotations

import csv
import json
from typing import Any

import pyarrow as pa
import pytest

from gapless.chains.evm.transfer_rows import transfer_rows, wrapped_on
from gapless.chains.evm.transfers import transfers as etl_transfers
from tests.data.recorded import RealBlock, real_blocks, with_blocks
from tests.data.test_wallet_movements import DEFECTIVE, ETL, VECTORS, address, decoded
from tests.unit.evm.wallet_stage import Sent, rows_of

KINDS = {"ERC-20": ("token", "wrap", "unwrap"), "ERC-721": ("nft",), "ERC-1155": ("multi_token",)}
ERC_404 = {"ERC-404 ERC20Transfer", "ERC-404 ERC721Transfer"}
PARTIES = ("token_address", "from_address", "to_address")

Row = dict[str, Any]
Transfer = tuple[str, bytes, bytes, bytes, int, int, int]  # …, transaction, position of the log


def rows_in(logs: pa.Table, wrapped: bytes | None) -> list[Row]:
    rows: list[Row] = transfer_rows(logs, wrapped).to_pylist()
    return rows


def number(row: Row) -> int:
    """The id of a token that exists once, the amount of another."""
    return int.from_bytes(row["token_id"] if row["kind"] == "nft" else row["amount"], "big")


def as_transfers(real: RealBlock, logs: pa.Table) -> list[Transfer]:
    return [
        (
            *(row["kind"], row["token_address"], row["from_address"], row["to_address"]),
            *(number(row), row["transaction_index"], row["log_position"]),
        )
        for row in rows_in(logs, wrapped_on(real.chain_id))
        if row["kind"] in ("token", "nft")
    ]


@with_blocks
def test_another_indexer_finds_the_same_transfers() -> None:
    count = 0
    for real in real_blocks():
        if real.peer_token_transfers is None:
            continue
        logs = decoded(real)["logs"]
        names = ("transaction_index", "log_index", "log_position")
        columns = (logs[name].to_pylist() for name in names)
        positions = {(index, log): at for index, log, at in zip(*columns, strict=True)}
        theirs = list[Transfer]()
        for it in real.peer_token_transfers:  # who leave zeros out
            index, log = int(it.get("transactionIndex", 0)), int(it.get("logIndex", 0))
            token, sender, receiver = (
                address(it[key]) for key in ("tokenAddress", "fromAddress", "toAddress")
            )
            is_token = "erc20" in it
            value = it["erc20"].get("value", 0) if is_token else it["erc721"]["tokenId"]
            theirs.append(
                (
                    *("token" if is_token else "nft", token, sender, receiver, int(value)),
                    *(index, positions[index, log]),
                )
            )
        assert sorted(as_transfers(real, logs)) == sorted(theirs), str(real)
        count += len(theirs)
    assert count == 1223


@with_blocks
def test_the_rule_of_ethereum_etl_finds_the_same_in_real_blocks() -> None:
    count, kinds = 0, set[str]()
    for real in real_blocks():
        if real.receipts is None or str(real) in DEFECTIVE:
            continue
        logs = decoded(real)["logs"]
        kinds |= {row["kind"] for row in rows_in(logs, wrapped_on(real.chain_id))}
        theirs = [
            (
                *(it[name] for name in PARTIES),
                *(int.from_bytes(it["value"], "big"), it["transaction_index"], it["log_position"]),
            )
            for it in etl_transfers(logs).to_pylist()
        ]
        assert [it[1:] for it in as_transfers(real, logs)] == theirs, str(real)
        count += len(theirs)
    assert count == 2788
    assert kinds == {"token", "nft", "multi_token", "wrap", "unwrap"}


def _vectors() -> list[Row]:
    found: list[Row] = json.loads(VECTORS.read_text())["vectors"] if VECTORS.exists() else []
    return found


@pytest.mark.skipif(not VECTORS.exists(), reason="there are no recorded vectors")
@pytest.mark.parametrize("vector", _vectors(), ids=lambda it: it["name"])
def test_vectors_of_another_indexer(vector: Row) -> None:
    log = vector["log"]
    topics = [f"0x{topic[2:]:0>64}" for topic in log["topics"]]
    logs = rows_of(Sent(events=[{**log, "topics": topics}]))["logs"]
    expected = [] if vector["name"] in ERC_404 else vector["expected"]
    found = rows_in(logs, address(log["address"]))
    assert [seen(row) for row in found] == [known(it) for it in expected]
    for row, it in zip(found, expected, strict=True):
        assert row["kind"] in KINDS[it["type"]]
        assert row["token_address"] == address(log["address"])
    assert [row["batch_position"] for row in found] == [*range(len(found))]


def seen(row: Row) -> tuple[bytes, bytes, int, int | None]:
    token_id = row["token_id"]
    return (
        *(row["from_address"], row["to_address"], int.from_bytes(row["amount"], "big")),
        None if token_id is None else int.from_bytes(token_id, "big"),
    )


def known(it: Row) -> tuple[bytes, bytes, int, int | None]:
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
    assert_expected(logs, folder / "expected_token_transfers.csv")
    folder = ETL / "test_export_token_transfers_job" / "block_with_transfers"
    answer = json.loads((folder / "web3_response.eth_getFilterLogs_0x0.json").read_text())
    assert_expected(answer["result"], folder / "expected_token_transfers.csv")


def assert_expected(logs: list[Row], theirs: Any) -> None:
    with theirs.open() as file:
        expected = [
            (*(address(it[name]) for name in PARTIES), int(it["value"]))
            for it in csv.DictReader(file)
        ]
    events = [{key: it[key] for key in ("address", "topics", "data")} for it in logs]
    found = rows_in(rows_of(Sent(events=events))["logs"], wrapped_on(1))
    assert [(*(row[name] for name in PARTIES), number(row)) for row in found] == expected
    assert expected
