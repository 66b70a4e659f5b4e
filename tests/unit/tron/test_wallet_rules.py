"""What TRON's rows say about coins and tokens, and addresses as people write them."""

from __future__ import annotations

import pytest

from gapless.chains.movements import NOWHERE, Coin
from gapless.chains.tron.networks import TRON_CUSTOM
from gapless.chains.tron.protobuf import bytes_field, number_field
from gapless.chains.tron.tokens import TRANSFER
from gapless.core.errors import UsageError
from tests.unit.tron.answers import CHAIN_ID, HEIGHT, Json, log, raw_data, word
from tests.unit.tron.wallet_stage import (
    ANN,
    ART,
    BOB,
    CAT,
    COIN,
    RULES,
    Done,
    brief,
    calls,
    creates,
    full,
    internal,
    moved,
    rows_of,
    transfers,
    transfers_asset,
)


def test_coins_and_their_fee() -> None:
    fee, native = moved(rows_of(Done(transfers(7), {"fee": 10})), ANN)
    assert (fee.kind, fee.sender, fee.receiver, fee.amount) == ("fee", ANN, b"", 10)
    assert (native.kind, native.sender, native.receiver, native.amount) == ("native", ANN, BOB, 7)
    assert native.key == (CHAIN_ID, HEIGHT, "native", 0, NOWHERE, NOWHERE)
    assert (native.token, native.initiator) == (b"", ANN)
    assert RULES.coin(TRON_CUSTOM) == Coin("TRX", 6)


def test_only_the_owner_pays_and_a_fee_may_be_zero() -> None:
    rows = rows_of(Done(transfers(7)))
    assert [(it.kind, it.amount) for it in moved(rows, BOB)] == [("native", 7)]
    assert [(it.kind, it.amount) for it in moved(rows, ANN)] == [("fee", 0), ("native", 7)]


@pytest.mark.parametrize("result", ["REVERT", "OUT_OF_ENERGY"])
def test_a_failed_call_pays_and_moves_nothing(result: str) -> None:
    facts = {"fee": 9, "result": "FAILED", "internal_transactions": [internal(3)]}
    failed = Done(calls(5, 6), {**facts, "contract_address": full(CAT).hex()}, result)
    assert brief(failed) == [("fee", ANN, b"", 9)]


def test_a_transaction_fails_if_its_info_says_so() -> None:
    assert brief(Done(transfers(7), {"fee": 9, "result": "FAILED"})) == [("fee", ANN, b"", 9)]


def test_assets_have_a_number_or_a_name() -> None:
    numbered, named = moved(
        rows_of(Done(transfers_asset(6)), Done(transfers_asset(7, b"BitTorrent"))), BOB
    )
    assert (numbered.kind, numbered.token, numbered.amount) == ("asset", b"1000001", 6)
    assert (named.kind, named.token, named.amount) == ("asset", b"BitTorrent", 7)


def test_a_call_may_send_coins_and_assets() -> None:
    assert brief(Done(calls(5, 6))) == [("asset", ANN, CAT, 6), ("native", ANN, CAT, 5)]
    (asset,) = (it for it in moved(rows_of(Done(calls(5, 6)))) if it.kind == "asset")
    assert asset.token == b"1000001"


def test_a_new_contract_may_be_endowed() -> None:
    created = Done(creates(5, 6), {"contract_address": full(BOB).hex()})
    assert brief(created) == [("asset", ANN, BOB, 6), ("native", ANN, BOB, 5)]


def test_calls_within_a_transaction() -> None:
    values = [
        {"callValue": 3},
        {"callValue": 4, "tokenId": "1000001"},
        {"callValue": 5, "tokenId": "2"},
    ]
    inner = [internal(0), internal(0, callValueInfo=values)]
    found = moved(rows_of(Done(calls(), {"internal_transactions": inner})), BOB)
    assert [(it.kind, it.amount, it.token, it.position, it.batch_position) for it in found] == [
        ("asset", 4, b"1000001", 1, 0),
        ("asset", 5, b"2", 1, 1),
        ("internal", 3, b"", 1, NOWHERE),
    ]


@pytest.mark.parametrize(
    "odd",
    [
        internal(3, rejected=True),
        internal(3, note=b"freezeBalanceV2ForEnergy".hex()),
        internal(3, note=b"withdrawReward".hex()),
        internal(3, transferTo_address=""),
        internal(3, caller_address="a0" + "01" * 20),
        internal(0, callValueInfo=[{"callValue": 4, "tokenId": ""}, {"callValue": 5}]),
    ],
)
def test_other_calls_move_nothing(odd: Json) -> None:
    assert brief(Done(calls(), {"internal_transactions": [odd]})) == []


@pytest.mark.parametrize("note", ["call", "create", "suicide"])
def test_notes_of_calls_that_move_coins(note: str) -> None:
    inner = {"internal_transactions": [internal(3, note=note.encode().hex())]}
    assert brief(Done(calls(), inner)) == [("internal", CAT, BOB, 3)]


def test_tokens() -> None:
    logs = [
        log(TRANSFER.hex(), word(ANN), word(BOB), data=word(10**30)),
        log(TRANSFER.hex(), word(full(ANN)), word(BOB), word(77)),
        log(TRANSFER.hex(), word(bytes(20)), word(BOB), data=word(0)),
        log(TRANSFER.hex(), word(ANN), word(BOB)),
        log("ee" * 32, word(ANN), word(BOB), data=word(1)),
    ]
    nft, token, minted = moved(rows_of(Done(calls(by=ART), {"log": logs})), BOB)
    assert (token.kind, token.token, token.amount, token.token_id) == ("token", COIN, 10**30, None)
    assert (nft.kind, nft.token, nft.amount, nft.token_id) == ("nft", COIN, 1, 77)
    assert (minted.sender, minted.amount, minted.position) == (b"", 0, 2)
    assert token.initiator == ART


def test_rewards_are_credited_and_staking_is_not_a_movement() -> None:
    def of(kind: int, *more: bytes) -> bytes:
        return raw_data(kind, bytes_field(1, full(ANN)), *more)

    staking = [
        Done(of(11, number_field(2, 50), number_field(3, 3))),
        Done(of(12), {"unfreeze_amount": 50}),
        Done(of(54, number_field(2, 60))),
        Done(of(55, number_field(2, 60)), {"withdraw_expire_amount": 10}),
        Done(of(56), {"withdraw_expire_amount": 60}),
        Done(of(57, number_field(3, 9), bytes_field(4, full(BOB)))),
        Done(of(59), {"withdraw_expire_amount": 5}),
    ]
    assert brief(*staking) == []
    assert brief(Done(of(13), {"withdraw_amount": 8})) == [("reward", b"", ANN, 8)]


def test_an_allowance_is_granted() -> None:
    approve = bytes.fromhex("095ea7b3") + bytes(64)
    (fee,) = moved(rows_of(Done(calls(data=approve))), ANN)
    assert fee.is_approval
    (fee,) = moved(rows_of(Done(calls(data=approve), result="REVERT")), ANN)
    assert not fee.is_approval


def test_addresses_as_people_write_them() -> None:
    usdt = "TR7NHqjeKQxGTCi8q8ZY4pL8otSzgjLj6t"
    digits = "a614f803b6fd780986a42c78ec9c7f77e6ded13c"
    for text in (usdt, f" {usdt} ", "41" + digits, "0x41" + digits, "41" + digits.upper()):
        assert RULES.format_address(RULES.parse_address(text)) == usdt
    for text in (digits, "0x" + digits):
        with pytest.raises(UsageError, match="in hex, one begins with 41") as refused:
            RULES.parse_address(text)
        assert usdt in (refused.value.hint or "")
    with pytest.raises(UsageError, match="its checksum is wrong"):
        RULES.parse_address(usdt[:-1] + "u")
