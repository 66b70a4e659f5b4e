"""What transactions and withdrawals do to coins."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from gapless.chains.evm.networks import NETWORKS
from gapless.chains.movements import NOWHERE, Coin
from tests.evm import evm_network
from tests.unit.evm.answers import CHAIN, HEIGHT, Json
from tests.unit.evm.answers import word as hash_of
from tests.unit.evm.wallet_stage import (
    ANN,
    BOB,
    CAT,
    ETHEREUM,
    FEE,
    GAS,
    NOBODY,
    RULES,
    Sent,
    brief,
    event,
    hexed,
    moved,
    padded,
    rows_of,
    word,
)

FAILED = {"status": "0x0"}
APPROVE = "0x095ea7b3" + "00" * 64
APPROVAL = bytes.fromhex("8c5be1e5ebec7d5bd14f71427d1e84f3dd0314c0f7b2291e5b200ac8c7c3b925")
APPROVAL_FOR_ALL = bytes.fromhex("17307eab39ab6107e8899845ad3d59bd9653f200f220920489ca2b5937696c31")


def test_value_and_fee_of_a_transaction() -> None:
    native, fee = moved(rows_of(Sent(value=5)), ANN)[::-1]
    assert (native.kind, native.sender, native.receiver, native.amount) == ("native", ANN, BOB, 5)
    assert (fee.kind, fee.sender, fee.receiver, fee.amount) == ("fee", ANN, b"", FEE)
    assert native.key == (CHAIN, HEIGHT, "native", 0, NOWHERE, NOWHERE)
    assert (native.token, native.token_id, native.initiator) == (b"", None, ANN)
    assert (native.block_hash, native.block_timestamp) == (bytes.fromhex(hash_of(1)[2:]), 100)
    assert native.transaction_hash == bytes.fromhex(hash_of(0xAA00)[2:])


def test_only_the_sender_pays() -> None:
    assert brief(moved(rows_of(Sent(value=5)), BOB)) == [("native", ANN, BOB, 5)]


def test_a_transaction_without_value_is_seen_by_its_fee() -> None:
    assert brief(moved(rows_of(Sent()))) == [("fee", ANN, b"", FEE)]
    assert moved(rows_of(Sent()), BOB) == []


def test_a_free_transaction_has_a_fee_of_zero() -> None:
    free = Sent(receipt={"effectiveGasPrice": "0x0"})
    assert brief(moved(rows_of(free))) == [("fee", ANN, b"", 0)]


def test_a_transaction_to_oneself_is_a_movement() -> None:
    assert brief(moved(rows_of(Sent(receiver=ANN, value=5)), ANN))[1] == ("native", ANN, ANN, 5)


def test_a_failed_transaction_pays_and_moves_nothing() -> None:
    failed = Sent(value=5, input=APPROVE, receipt=FAILED)
    (fee,) = moved(rows_of(failed))
    assert (fee.kind, fee.amount, fee.is_approval) == ("fee", FEE, False)


def test_coins_for_a_new_contract_go_to_the_contract() -> None:
    creation = Sent(receiver=None, value=5, receipt={"contractAddress": hexed(CAT)})
    rows = rows_of(creation)
    assert ("native", ANN, CAT, 5) in brief(moved(rows, ANN))
    assert brief(moved(rows, CAT)) == [("native", ANN, CAT, 5)]


def test_coins_for_the_zero_address_go_to_nobody() -> None:
    assert ("native", ANN, b"", 5) in brief(moved(rows_of(Sent(receiver=NOBODY, value=5)), ANN))


def test_a_transaction_without_a_receipt_says_nothing() -> None:
    """Cronos has such transactions."""
    rows = rows_of(Sent(value=5))
    table = rows["transactions"]
    for name in ("gas_used", "status", "effective_gas_price"):
        at = table.schema.get_field_index(name)
        table = table.set_column(at, name, pa.nulls(1, table.schema.field(at).type))
    assert moved({**rows, "transactions": table}) == []


@pytest.mark.parametrize(
    ("gas_used", "input_", "logs", "expected"),
    [
        (GAS - 1, "0x1234", False, True),
        (GAS, "0x1234", False, False),
        (GAS, "0x1234", True, True),
        (GAS, "0x", False, True),
    ],
    ids=["gas left", "all gas used", "logs", "plain transfer"],
)
def test_success_before_byzantium(gas_used: int, input_: str, logs: bool, expected: bool) -> None:
    receipt = {"status": None, "root": hash_of(9), "gasUsed": hex(gas_used)}
    events = [event(CAT, [word(1)])] if logs else []
    sent = Sent(value=5, input=input_, receipt=receipt, events=events)
    assert (("native", ANN, BOB, 5) in brief(moved(rows_of(sent)))) is expected


def fee_of(network: str = "optimism", type_: int = 2, **receipt: Any) -> int | None:
    sent = Sent(receipt=receipt, more={"type": hex(type_)})
    fees = [it.amount for it in moved(rows_of(sent), ANN, network=evm_network(network))]
    return fees[0] if fees else None


def test_fees_of_blobs() -> None:
    assert fee_of("ethereum", 3, blobGasUsed="0x20000", blobGasPrice="0x3") == FEE + 3 * 0x20000


def test_the_data_footprint_of_a_rollup_is_not_blob_gas() -> None:
    assert fee_of(blobGasUsed="0x20000", blobGasPrice="0x3") == FEE


def test_fees_for_the_first_layer() -> None:
    assert fee_of(l1Fee="0x64") == FEE + 100


def test_fees_of_the_operator() -> None:
    fields: Json = {"operatorFeeScalar": hex(1_500_000), "operatorFeeConstant": "0x7"}
    assert fee_of(**fields) == FEE + 7 + GAS * 3 // 2
    assert fee_of(**fields, daFootprintGasScalar="0x190") == FEE + 7 + GAS * 150_000_000
    assert fee_of(operatorFeeConstant="nonsense") == FEE


def test_an_old_receipt_without_a_price() -> None:
    assert fee_of("ethereum", 0, effectiveGasPrice=None) == FEE


@pytest.mark.parametrize("type_", [0x64, 0x68, 0x69, 0x6A, 0x7E])
def test_nobody_pays_for_deposits_and_system_transactions(type_: int) -> None:
    assert fee_of(type_=type_) is None


def test_nobody_pays_for_what_the_zero_address_sends() -> None:
    """Such as the state synchronisation of Polygon."""
    assert moved(rows_of(Sent(sender=NOBODY, receiver=NOBODY)), NOBODY) == []


def test_fees_that_are_paid_with_tokens() -> None:
    assert fee_of("tempo") == 0
    rows = rows_of(Sent())
    table, extra = rows["transactions"], pa.array([f'{{"feeCurrency":"{hexed(CAT)}"}}'])
    at = table.schema.get_field_index("extra")
    celo = {**rows, "transactions": table.set_column(at, "extra", extra)}
    assert brief(moved(celo, ANN)) == [("fee", ANN, b"", 0)]


def test_what_a_deposit_mints_stays_even_if_it_fails() -> None:
    more = {"type": "0x7e", "mint": "0x9", "sourceHash": hash_of(4)}
    deposit = Sent(value=5, more=more)
    minted, native = ("mint", b"", ANN, 9), ("native", ANN, BOB, 5)
    assert brief(moved(rows_of(deposit))) == [minted, native]
    assert brief(moved(rows_of(replace(deposit, receipt=FAILED)))) == [minted]


@pytest.mark.parametrize("type_", ["0x64", "0x68"])
def test_arbitrum_gives_the_sender_of_a_deposit_what_it_sends(type_: str) -> None:
    deposit = Sent(value=5, more={"type": type_})
    expected = [("mint", b"", ANN, 5), ("native", ANN, BOB, 5)]
    assert brief(moved(rows_of(deposit))) == expected
    assert moved(rows_of(replace(deposit, receipt=FAILED))) == []


def test_withdrawals_of_validators() -> None:
    rows = rows_of(withdrawals=[(ANN, 3), (BOB, 4), (ANN, 5)])
    first, second = moved(rows, ANN)
    assert brief([first, second]) == [
        ("withdrawal", b"", ANN, 3 * 10**9),
        ("withdrawal", b"", ANN, 5 * 10**9),
    ]
    assert [it.key[3:] for it in (first, second)] == [(NOWHERE, 0, NOWHERE), (NOWHERE, 2, NOWHERE)]
    assert (first.transaction_hash, first.initiator) == (b"", b"")


def test_withdrawals_on_gnosis_wait_in_a_contract() -> None:
    rows = rows_of(withdrawals=[(ANN, 3)])
    assert moved(rows, ANN, network=evm_network("gnosis")) == []


@pytest.mark.parametrize("selector", ["095ea7b3", "a22cb465", "39509351", "d73dd623", "87517c45"])
def test_a_transaction_that_grants_an_allowance(selector: str) -> None:
    (fee,) = moved(rows_of(Sent(input="0x" + selector + "00" * 64)))
    assert fee.is_approval


@pytest.mark.parametrize("topic", [APPROVAL, APPROVAL_FOR_ALL])
def test_an_allowance_that_only_a_log_shows(topic: bytes) -> None:
    by = {who: event(CAT, [topic, padded(who), padded(BOB)], word(7)) for who in (ANN, BOB)}
    (fee,) = moved(rows_of(Sent(events=[by[ANN]])), ANN)
    assert fee.is_approval
    (fee,) = moved(rows_of(Sent(events=[by[BOB]])), ANN)
    assert not fee.is_approval, "somebody else granted it"


def test_only_the_fee_says_that_a_transaction_grants_an_allowance() -> None:
    """Rows that were looked up for the receiver would not contain the log."""
    granted = event(CAT, [APPROVAL, padded(ANN), padded(CAT)], word(7))
    native, fee = moved(rows_of(Sent(value=5, events=[granted])))[::-1]
    assert (fee.is_approval, native.is_approval) == (True, False)


def test_every_network_has_a_coin() -> None:
    coins = {network.name: RULES.coin(network) for network in NETWORKS}
    assert coins["ethereum"] == Coin("ETH", 18) == coins["custom"]
    assert (coins["polygon"].symbol, coins["gnosis"].symbol) == ("POL", "xDAI")


def test_wrapping_contracts_are_addresses() -> None:
    listed = [network.wrapped for network in NETWORKS if network.wrapped is not None]
    assert all(len(each) == 20 for each in listed)
    assert ETHEREUM.wrapped in listed
    assert evm_network("arbitrum").wrapped is None
