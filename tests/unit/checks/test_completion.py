"""A node may omit a field that follows from others; it is stored as if it had been sent."""

from __future__ import annotations

import pytest

from gapless.chains import Level
from gapless.chains.evm.check_names import Check
from gapless.chains.evm.checks.check import check_block
from gapless.chains.evm.checks.completion import complete
from gapless.chains.evm.decode.structs import Block, Receipt
from gapless.chains.evm.networks import CUSTOM
from tests.evm import checks_of, evm_network
from tests.unit.checks.blocks import HEIGHT, block

OMISSIBLE = [
    ("receipt", "effective_gas_price"),
    ("receipt", "gas_used"),
    ("receipt", "type"),
    ("receipt", "contract_address"),
    ("transaction", "type"),
    ("block", "logs_bloom"),
]


def owners(it: Block, receipts: list[Receipt], kind: str) -> list[object]:
    if kind == "block":
        return [it]
    return [*receipts] if kind == "receipt" else [*it.transactions]


@pytest.mark.parametrize(("kind", "field"), OMISSIBLE)
def test_omitted_fields_are_filled_in_and_proven(kind: str, field: str) -> None:
    it, receipts = block()
    expected = [getattr(each, field) for each in owners(it, receipts, kind)]
    for each in owners(it, receipts, kind):
        setattr(each, field, None)
    complete(it, receipts, CUSTOM, HEIGHT)
    assert [getattr(each, field) for each in owners(it, receipts, kind)] == expected
    proof = check_block(it, receipts, CUSTOM, checks_of(Level.SENDERS), HEIGHT)
    assert proof.unproven == frozenset()


def test_the_gas_price_of_a_fee_market_transaction_is_what_it_paid() -> None:
    it, receipts = block()
    complete(it, receipts, CUSTOM, HEIGHT)
    assert [each.gas_price for each in it.transactions] == [
        each.effective_gas_price for each in receipts
    ]


def test_blob_gas_follows_from_the_number_of_blobs() -> None:
    it, receipts = block()
    it.transactions[1].type = "0x3"
    it.transactions[1].blob_versioned_hashes = [it.hash, it.parent_hash]
    complete(it, receipts, CUSTOM, HEIGHT)
    assert [each.blob_gas_used for each in receipts] == [None, hex(2 << 17)]


def test_missing_withdrawals_are_an_empty_list_if_the_root_says_so() -> None:
    empty = block(count=0)[0].transactions_root
    it, receipts = block(withdrawals=None, withdrawals_root=empty)
    complete(it, receipts, CUSTOM, HEIGHT)
    assert it.withdrawals == []


def test_values_that_the_node_sent_are_left_for_the_checks() -> None:
    it, receipts = block()
    receipts[0].effective_gas_price = "0x7"
    complete(it, receipts, CUSTOM, HEIGHT)
    assert receipts[0].effective_gas_price == "0x7"


def test_nothing_is_computed_by_rules_that_the_network_does_not_have() -> None:
    cronos = evm_network("cronos")
    assert Check.PRICES not in cronos.checks_at(HEIGHT)
    it, receipts = block()
    receipts[0].effective_gas_price = receipts[0].contract_address = None
    complete(it, receipts, cronos, HEIGHT)
    assert (receipts[0].effective_gas_price, receipts[0].contract_address) == (None, None)


def test_unreadable_fields_do_not_raise_here() -> None:
    it, receipts = block()
    receipts[0].cumulative_gas_used = "0xzz"
    receipts[0].effective_gas_price = None
    complete(it, receipts, CUSTOM, HEIGHT)
    assert receipts[0].effective_gas_price is None
