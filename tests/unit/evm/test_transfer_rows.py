"""Rows of `transfers`: which logs are transfers, and what their columns say."""

from __future__ import annotations

from typing import Any

import pytest

from gapless.chains.evm.transfer_rows import transfer_rows, wrapped_on
from gapless.chains.evm.transfers import TRANSFER
from gapless.chains.evm.wallet_tokens import BATCH, DEPOSIT, SINGLE, WITHDRAWAL
from tests.evm import evm_network
from tests.unit.evm.answers import Json
from tests.unit.evm.wallet_stage import (
    ANN,
    ART,
    BOB,
    CAT,
    COIN,
    NOBODY,
    Sent,
    event,
    padded,
    rows_of,
    transfer,
    word,
)

Row = dict[str, Any]
PAIR = (padded(ANN), padded(BOB))


def rows(*events: Json, wrapped: bytes | None = None) -> list[Row]:
    found: list[Row] = transfer_rows(rows_of(Sent(events=events))["logs"], wrapped).to_pylist()
    return found


def brief(*events: Json, wrapped: bytes | None = None) -> list[tuple[str, bytes, bytes, int]]:
    return [
        (it["kind"], it["from_address"], it["to_address"], int.from_bytes(it["amount"], "big"))
        for it in rows(*events, wrapped=wrapped)
    ]


def batch(ids: list[int], amounts: list[int]) -> Json:
    lists = [word(len(each)) + b"".join(map(word, each)) for each in (ids, amounts)]
    data = word(64) + word(64 + len(lists[0])) + lists[0] + lists[1]
    return event(ART, [BATCH, padded(CAT), *PAIR], data)


def test_a_token_has_the_columns_of_its_log() -> None:
    logs = rows_of(Sent(), Sent(events=[event(COIN, [TRANSFER]), transfer(ANN, BOB, 7)]))["logs"]
    (row,) = transfer_rows(logs, None).to_pylist()
    of_log = ("chain_id", "block_number", "block_timestamp", "transaction_hash")
    assert [row[name] for name in of_log] == [logs[name][1].as_py() for name in of_log]
    assert (row["transaction_index"], row["log_position"], row["batch_position"]) == (1, 1, 0)
    assert (row["kind"], row["token_address"]) == ("token", COIN)
    assert (row["from_address"], row["to_address"]) == (ANN, BOB)
    assert (row["amount"], row["amount_f64"]) == (word(7), 7.0)
    assert (row["token_id"], row["token_id_f64"]) == (None, None)


def test_a_token_that_exists_once_has_an_id() -> None:
    (row,) = rows(event(ART, [TRANSFER, *PAIR, word(2**255)]))
    assert (row["kind"], row["token_id"], row["token_id_f64"]) == ("nft", word(2**255), 2.0**255)
    assert (row["amount"], row["amount_f64"]) == (word(1), 1.0)


@pytest.mark.parametrize(
    ("topics", "data"), [((*PAIR, word(9)), b"more"), ((), PAIR[0] + PAIR[1] + word(9))]
)
def test_old_and_unusual_transfers_of_one_token(topics: tuple[bytes, ...], data: bytes) -> None:
    (row,) = rows(event(ART, [TRANSFER, *topics], data))
    assert (row["kind"], row["token_id"], row["amount"]) == ("nft", word(9), word(1))
    assert (row["from_address"], row["to_address"]) == (ANN, BOB)


@pytest.mark.parametrize(
    ("topics", "data"),
    [
        ([], b""),
        ([], PAIR[0] + PAIR[1]),
        ([], word(2**255) + PAIR[1] + word(9)),
        (PAIR[:1], PAIR[1] + word(9)),
        (PAIR, b""),
        (PAIR, word(9) + word(9)),
        ((word(2**255), PAIR[1]), word(9)),
    ],
)
def test_other_logs_of_the_event_are_not_transfers(topics: list[bytes], data: bytes) -> None:
    assert rows(event(COIN, [TRANSFER, *topics], data)) == []


def test_one_of_many_tokens() -> None:
    (row,) = rows(event(ART, [SINGLE, padded(CAT), *PAIR], word(5) + word(6)))
    assert (row["kind"], row["token_id"], row["amount"]) == ("multi_token", word(5), word(6))
    assert (row["from_address"], row["to_address"]) == (ANN, BOB)


def test_a_batch_has_a_row_for_each_of_its_tokens() -> None:
    found = rows(batch([5, 6, 5], [1, 2, 3]), transfer(ANN, BOB, 7), batch([], []))
    places = [(it["log_position"], it["batch_position"]) for it in found]
    assert places == [(0, 0), (0, 1), (0, 2), (1, 0)]
    assert [it["token_id"] for it in found[:3]] == [word(5), word(6), word(5)]
    assert [it["amount"] for it in found[:3]] == [word(1), word(2), word(3)]


def test_unequal_lists_are_not_a_batch() -> None:
    assert rows(batch([5, 6], [1])) == []


def test_wrapping_is_created_and_destroyed_once() -> None:
    wraps = [event(COIN, [DEPOSIT, padded(ANN)], word(7)), transfer(NOBODY, ANN, 7)]
    assert brief(*wraps, wrapped=COIN) == [("wrap", NOBODY, ANN, 7)]
    unwraps = [transfer(ANN, NOBODY, 7), event(COIN, [WITHDRAWAL, padded(ANN)], word(7))]
    assert brief(*unwraps, wrapped=COIN) == [("unwrap", ANN, NOBODY, 7)]
    assert brief(*wraps) == [("token", NOBODY, ANN, 7)], "another contract may not wrap anything"


def test_a_twin_in_another_transaction_is_another_transfer() -> None:
    wrap, minted = event(COIN, [DEPOSIT, padded(ANN)], word(7)), transfer(NOBODY, ANN, 7)
    logs = rows_of(Sent(events=[wrap]), Sent(events=[minted]))["logs"]
    assert transfer_rows(logs, COIN)["kind"].to_pylist() == ["wrap", "token"]


def test_the_wrapping_contract_is_that_of_the_chain_id() -> None:
    assert wrapped_on(1) == evm_network("ethereum").wrapped
    assert wrapped_on(1) is not None
    assert wrapped_on(1337) is None
