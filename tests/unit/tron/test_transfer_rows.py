"""Rows of `tron_transfers`: TRC-10, TRC-20 and TRC-721, of transactions that succeeded."""

from __future__ import annotations

from typing import Any

from gapless.chains.tron.address import base58_of
from gapless.chains.tron.tokens import TRANSFER
from gapless.chains.tron.transfer_rows import derived_tables
from gapless.schema.arrow import Tables
from tests.unit.tron.answers import log, word
from tests.unit.tron.wallet_stage import (
    ANN,
    BOB,
    CAT,
    COIN,
    Done,
    calls,
    creates,
    full,
    internal,
    rows_of,
    transfers,
    transfers_asset,
)

Row = dict[str, Any]
LOG = log(TRANSFER.hex(), word(ANN), word(BOB), data=word(8))
SENT = [{"callValue": 3}, {"callValue": 4, "tokenId": "1000001"}, {"callValue": 5, "tokenId": "7"}]


def rows(*done: Done) -> list[Row]:
    found: list[Row] = derived(rows_of(*done))
    return found


def derived(tables: Tables) -> list[Row]:
    found: list[Row] = derived_tables(tables)["tron_transfers"].to_pylist()
    return found


def number(row: Row) -> int:
    return int.from_bytes(row["amount"], "big")


def test_a_transaction_moves_what_it_sends_then_logs_then_calls() -> None:
    within = {"log": [LOG], "internal_transactions": [internal(0, callValueInfo=SENT)]}
    found = rows(Done(transfers(7)), Done(calls(5, 6), within))
    assert [it["transfer_position"] for it in found] == [0, 1, 2, 3]
    assert {it["transaction_index"] for it in found} == {1}
    assert [it["kind"] for it in found] == ["asset", "token", "asset", "asset"]
    assert [it["asset"] for it in found] == [b"1000001", None, b"1000001", b"7"]
    assert [it["log_position"] for it in found] == [None, 0, None, None]
    assert [it["internal_position"] for it in found] == [None, None, 0, 0]
    assert [number(it) for it in found if it["kind"] == "asset"] == [6, 4, 5]
    assert [(it["from_address"], it["to_address"]) for it in found[::2]] == [(ANN, CAT), (CAT, BOB)]


def test_columns_of_an_asset() -> None:
    (row,) = rows(Done(transfers_asset(6)))
    assert (row["from_base58"], row["to_base58"]) == (base58_of(ANN), base58_of(BOB))
    assert (row["token_address"], row["token_base58"], row["token_id"]) == (None, None, None)
    assert (row["amount"], row["amount_f64"]) == (bytes.fromhex(word(6)), 6.0)


def test_a_contract_may_be_created_with_an_asset() -> None:
    (row,) = rows(Done(creates(5, 6), {"contract_address": full(BOB).hex()}))
    assert (row["kind"], row["to_address"], number(row)) == ("asset", BOB, 6)


def test_one_token_that_exists_once() -> None:
    moved = log(TRANSFER.hex(), word(ANN), word(BOB), word(9))
    (row,) = rows(Done(calls(), {"log": [moved]}))
    assert (row["kind"], row["token_address"], number(row)) == ("nft", COIN, 1)
    assert (row["token_id"], row["token_id_f64"]) == (bytes.fromhex(word(9)), 9.0)
    assert (row["token_base58"], row["asset"]) == (base58_of(COIN), None)


def test_a_transaction_that_failed_moves_nothing() -> None:
    within = {"log": [LOG], "internal_transactions": [internal(0, callValueInfo=SENT)]}
    assert rows(Done(calls(5, 6), within, "REVERT")) == []
    assert rows(Done(transfers_asset(6), {"result": "FAILED"})) == []


def test_rejected_calls_and_coins_are_not_transfers_of_tokens() -> None:
    rejected = internal(0, callValueInfo=SENT, rejected=True)
    assert rows(Done(calls(5), {"internal_transactions": [rejected, internal(3)]})) == []


def test_it_needs_all_that_it_follows_from() -> None:
    tables = rows_of(Done(transfers_asset(6)))
    for name in ("tron_transactions", "tron_logs", "tron_internal_transactions"):
        assert derived_tables({each: tables[each] for each in tables if each != name}) == {}
