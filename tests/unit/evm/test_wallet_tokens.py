"""What logs say about tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from gapless.chains.evm.transfers import TRANSFER
from gapless.chains.evm.wallet_tokens import BATCH, DEPOSIT, SINGLE, WITHDRAWAL
from gapless.chains.movements import Movement
from tests.unit.evm.answers import Json
from tests.unit.evm.wallet_stage import (
    ANN,
    ART,
    BOB,
    CAT,
    COIN,
    ETHEREUM,
    NOBODY,
    ROUTER,
    RULES,
    Sent,
    brief,
    event,
    moved,
    padded,
    rows_of,
    transfer,
    word,
)

WETH = ETHEREUM.wrapped or b""


def logged(*events: Json, to: bytes = ROUTER) -> list[Movement]:
    """Return what Ann and Bob see of logs in a transaction of somebody else."""
    return moved(rows_of(Sent(sender=CAT, receiver=to, events=events)), ANN, BOB)


def batch(ids: Sequence[int], amounts: Sequence[int]) -> bytes:
    """Encode two lists as Solidity does."""
    lists = [b"".join(map(word, (len(each), *each))) for each in (ids, amounts)]
    return word(64) + word(64 + len(lists[0])) + b"".join(lists)


def multi(topic: bytes, data: bytes, *parties: bytes) -> Json:
    return event(ART, [topic, *map(padded, parties or (CAT, ANN, BOB))], data)


def test_a_fungible_token() -> None:
    other = transfer(CAT, ROUTER, 1)
    (found,) = logged(other, transfer(ANN, BOB, 2**256 - 1))
    assert brief([found]) == [("token", ANN, BOB, 2**256 - 1)]
    assert (found.token, found.token_id, found.position) == (COIN, None, 1)
    assert found.initiator == CAT


def test_tokens_are_created_and_destroyed_by_nobody() -> None:
    found = logged(transfer(NOBODY, ANN, 3), transfer(ANN, NOBODY, 2))
    assert brief(found) == [("token", b"", ANN, 3), ("token", ANN, b"", 2)]


def test_a_transfer_of_nothing_and_to_oneself_is_a_movement() -> None:
    found = logged(transfer(ANN, BOB, 0), transfer(ANN, ANN, 4))
    assert brief(found) == [("token", ANN, BOB, 0), ("token", ANN, ANN, 4)]


def test_a_token_that_exists_once() -> None:
    (found,) = logged(event(ART, [TRANSFER, padded(ANN), padded(BOB), word(183)]))
    assert brief([found]) == [("nft", ANN, BOB, 1)]
    assert (found.token, found.token_id) == (ART, 183)


@pytest.mark.parametrize(
    ("topics", "data"),
    [
        ([TRANSFER], padded(ANN) + padded(BOB) + word(5)),
        ([TRANSFER, padded(ANN)], padded(BOB) + word(5)),
        ([TRANSFER, padded(ANN), padded(BOB)], b""),
        ([TRANSFER, padded(ANN), padded(BOB)], word(5) + word(6)),
        ([TRANSFER, padded(ANN), padded(BOB), word(5)], word(6)),
        ([TRANSFER, padded(ANN), b"\1" + padded(BOB)[1:]], word(5)),
        ([TRANSFER, b"\1" + padded(ANN)[1:], padded(BOB)], word(5)),
        ([word(7), padded(ANN), padded(BOB)], word(5)),
    ],
)
def test_other_logs_are_not_transfers(topics: list[bytes], data: bytes) -> None:
    assert logged(event(COIN, topics, data)) == []


def test_one_of_many_tokens() -> None:
    (found,) = logged(multi(SINGLE, word(2**255) + word(6)))
    assert brief([found]) == [("multi_token", ANN, BOB, 6)]
    assert (found.token, found.token_id, found.batch_position) == (ART, 2**255, -1)


def test_several_of_many_tokens() -> None:
    found = logged(multi(BATCH, batch([7, 8, 7], [1, 2, 3])))
    assert [(it.token_id, it.amount, it.batch_position) for it in found] == [
        *((7, 1, 0), (8, 2, 1), (7, 3, 2))
    ]


def test_an_operator_is_not_a_party() -> None:
    assert logged(multi(SINGLE, word(1) + word(6), ANN, CAT, ROUTER)) == []


@pytest.mark.parametrize(
    "data",
    [
        b"",
        word(1),
        batch([], []),
        batch([1], []),
        batch([1, 2], [1]),
        batch([1, 2], [3, 4])[:-1],
        word(2**256 - 1) + word(64) + word(0),
        word(64) + word(2**255) + word(0),
        word(64) + word(64) + word(2**255) + word(1),
        word(1) * 9,
    ],
)
def test_a_malformed_batch_is_left_out(data: bytes) -> None:
    good = transfer(ANN, BOB, 1)
    assert brief(logged(multi(BATCH, data), good)) == [("token", ANN, BOB, 1)]


def test_lists_may_share_their_place() -> None:
    """A decoder accepts that, so an event may look like this."""
    (found,) = logged(multi(BATCH, word(64) + word(64) + word(1) + word(9)))
    assert (found.token_id, found.amount) == (9, 9)


@pytest.mark.parametrize("data", [b"", word(1), word(1) * 3])
def test_a_malformed_single_is_left_out(data: bytes) -> None:
    assert logged(multi(SINGLE, data)) == []


def wrapping(topic: bytes, owner: bytes, amount: int, contract: bytes = WETH) -> Json:
    return event(contract, [topic, padded(owner)], word(amount))


def test_wrapping_by_calling_the_contract() -> None:
    sent = Sent(receiver=WETH, value=5, events=[wrapping(DEPOSIT, ANN, 5)])
    fee, native, wrap = moved(rows_of(sent), ANN)
    assert brief([native, wrap]) == [("native", ANN, WETH, 5), ("wrap", b"", ANN, 5)]
    assert (fee.kind, native.token, wrap.token) == ("fee", b"", WETH)


def test_wrapping_within_a_transaction_is_paid_by_a_call() -> None:
    coins, tokens = logged(wrapping(DEPOSIT, ANN, 5))
    assert brief([coins, tokens]) == [("internal", ANN, WETH, 5), ("wrap", b"", ANN, 5)]
    assert (coins.token, tokens.token, coins.position, tokens.position) == (b"", WETH, 0, 0)


@pytest.mark.parametrize("to", [WETH, ROUTER])
def test_unwrapping_pays_coins_by_a_call(to: bytes) -> None:
    found = logged(wrapping(WITHDRAWAL, ANN, 5), to=to)
    assert brief(found) == [("internal", WETH, ANN, 5), ("unwrap", ANN, b"", 5)]


def test_only_the_listed_contract_wraps() -> None:
    events = [wrapping(topic, ANN, 5, COIN) for topic in (DEPOSIT, WITHDRAWAL)]
    rows = rows_of(Sent(sender=CAT, events=events))
    assert moved(rows, ANN) == []
    listed = [wrapping(DEPOSIT, ANN, 5)]
    unlisted = replace(ETHEREUM, wrapped=None)
    assert moved(rows_of(Sent(sender=CAT, events=listed)), ANN, network=unlisted) == []


@pytest.mark.parametrize(
    "odd",
    [
        event(WETH, [DEPOSIT], padded(ANN) + word(5)),
        event(WETH, [DEPOSIT, padded(ANN), word(1)], word(5)),
        event(WETH, [WITHDRAWAL, padded(ANN)], word(5) * 2),
        event(WETH, [WITHDRAWAL, b"\1" + padded(ANN)[1:]], word(5)),
    ],
)
def test_malformed_wrapping_is_left_out(odd: Json) -> None:
    assert logged(odd) == []


def test_wrapping_that_is_announced_twice_counts_once() -> None:
    """Scroll's contract announces transfers from and to nobody as well."""
    both = [
        *(transfer(NOBODY, ANN, 5, WETH), wrapping(DEPOSIT, ANN, 5)),
        *(transfer(ANN, NOBODY, 3, WETH), wrapping(WITHDRAWAL, ANN, 3)),
    ]
    kinds = [it.kind for it in logged(*both)]
    assert kinds == ["internal", "internal", "unwrap", "wrap"]


def test_other_transfers_of_wrapped_coins_are_counted() -> None:
    events = [
        *(transfer(NOBODY, ANN, 5, WETH), transfer(NOBODY, ANN, 5, WETH)),
        *(wrapping(DEPOSIT, ANN, 5), transfer(ANN, NOBODY, 3, WETH), transfer(ANN, BOB, 2, WETH)),
    ]
    found = logged(*events)
    tokens = [it for it in found if it.kind != "internal"]
    assert brief(tokens) == [
        *(("token", b"", ANN, 5), ("token", ANN, b"", 3), ("token", ANN, BOB, 2)),
        ("wrap", b"", ANN, 5),
    ]


def test_movements_are_in_the_order_of_their_keys() -> None:
    sent = [
        Sent(value=1, events=[transfer(ANN, BOB, 1), multi(BATCH, batch([1, 2], [3, 4]))]),
        Sent(sender=BOB, receiver=ANN, value=2, events=[transfer(BOB, ANN, 1)]),
    ]
    found = moved(rows_of(*sent, withdrawals=[(ANN, 1)]), ANN)
    keys = [it.key for it in found]
    assert keys == sorted(keys)
    assert len({*keys}) == len(keys) == 8


def test_no_addresses_have_no_movements() -> None:
    assert RULES.movements(rows_of(Sent(value=1), withdrawals=[(ANN, 1)]), ETHEREUM, []) == []
