"""Each check refuses what it should, under its own name, starting at its level."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence

import pytest

from gapless.chains import Level
from gapless.chains.evm.check_names import FULL, Check
from gapless.chains.evm.checks.check import check_block
from gapless.chains.evm.codec import encoding
from gapless.chains.evm.codec.keccak import keccak
from gapless.chains.evm.codec.trie import EMPTY_ROOT, ordered_root
from gapless.chains.evm.decode.structs import Block, Receipt
from gapless.chains.evm.networks import CUSTOM, EvmNetwork
from gapless.core.errors import BadBlock
from gapless.core.proof import Proof
from gapless.core.remedies import LowerLevel
from tests.evm import checks_of, evm_network
from tests.unit.checks.blocks import BOB, HEIGHT, block, hexed

Damage = Callable[[Block, list[Receipt]], object]

LINKED, RECEIPTS, COMMITTED = Level.LINKS, Level.RECEIPTS, Level.AUTO
ROOTED, SIGNED = Level.ROOTS, Level.SENDERS
NOTHING = hexed(EMPTY_ROOT)


def check(
    it: Block,
    receipts: Sequence[Receipt] | None,
    level: Level = SIGNED,
    network: EvmNetwork = CUSTOM,
) -> Proof:
    return check_block(it, receipts, network, checks_of(level), HEIGHT)


def pop_log(it: Block, receipts: list[Receipt]) -> None:
    receipts[-1].logs.pop()


def lose_withdrawals(it: Block, receipts: list[Receipt]) -> None:
    it.withdrawals = []


DAMAGES: list[tuple[Check, Level, Damage]] = [
    (Check.HEIGHT, LINKED, lambda it, _: setattr(it, "number", "0x8")),
    (Check.COUNTS, LINKED, lambda _, receipts: receipts.pop()),
    (Check.PLACES, LINKED, lambda _, receipts: receipts.reverse()),
    (Check.PLACES, LINKED, lambda it, _: it.transactions.reverse()),
    (Check.PLACES, LINKED, lambda it, _: setattr(it.transactions[0], "block_hash", it.parent_hash)),
    (Check.PLACES, LINKED, lambda _, receipts: setattr(receipts[0], "block_number", "0x8")),
    (Check.PLACES, LINKED, lambda _, receipts: setattr(receipts[0], "transaction_index", "0x1")),
    (Check.PLACES, LINKED, lambda it, _: setattr(it.transactions[1], "transaction_index", "0x5")),
    (Check.EMPTY, LINKED, lambda it, _: setattr(it, "transactions_root", NOTHING)),
    (Check.EMPTY, LINKED, lambda it, _: setattr(it, "receipts_root", NOTHING)),
    (Check.EMPTY, LINKED, lambda it, _: it.uncles.append(it.parent_hash)),
    (Check.EMPTY, LINKED, lose_withdrawals),
    (Check.GAS, LINKED, lambda _, receipts: setattr(receipts[-1], "cumulative_gas_used", "0x1")),
    (Check.RECEIPT_BLOOMS, LINKED, pop_log),
    (Check.HEADER_HASH, RECEIPTS, lambda it, _: setattr(it, "state_root", it.parent_hash)),
    (Check.HEADER_HASH, RECEIPTS, lambda it, _: setattr(it, "mix_hash", None)),
    (Check.HEADER_HASH, RECEIPTS, lambda it, _: setattr(it, "extra_data", "0xz")),
    (Check.RECEIPTS_ROOT, RECEIPTS, lambda _, receipts: setattr(receipts[0], "status", "0x0")),
    (Check.RECEIPTS_ROOT, RECEIPTS, lambda _, receipts: setattr(receipts[0].logs[0], "data", "0x")),
    (Check.RECEIPTS_ROOT, RECEIPTS, lambda _, receipts: setattr(receipts[0], "type", "0x2222")),
    (Check.TRANSACTIONS_ROOT, COMMITTED, lambda it, _: setattr(it.transactions[1], "value", "0x2")),
    (Check.WITHDRAWALS_ROOT, COMMITTED, lambda it, _: setattr(it.withdrawals[0], "amount", "0x4")),  # type: ignore[index]
    (Check.DERIVED, ROOTED, lambda _, receipts: setattr(receipts[0], "gas_used", "0x1")),
    (Check.DERIVED, ROOTED, lambda it, _: setattr(it.transactions[0], "y_parity", "0x7")),
    (
        Check.DERIVED,
        ROOTED,
        lambda it, _: setattr(it.transactions[0], "from_", it.parent_hash[:42]),
    ),
    (Check.SENDERS, SIGNED, lambda it, _: setattr(it.transactions[1], "from_", BOB)),
    (Check.DERIVED, ROOTED, lambda it, them: setattr(them[1], "contract_address", it.miner)),
    (Check.DERIVED, ROOTED, lambda _, receipts: setattr(receipts[1], "blob_gas_used", "0x20000")),
    (Check.DERIVED, ROOTED, lambda _, receipts: setattr(receipts[0].logs[0], "removed", True)),
    (Check.PRICES, ROOTED, lambda _, receipts: setattr(receipts[0], "effective_gas_price", "0x1")),
    (Check.LOG_INDEX, ROOTED, lambda _, receipts: setattr(receipts[0].logs[1], "log_index", "0x0")),
]


def test_a_valid_block_passes_every_check() -> None:
    it, receipts = block()
    for level in Level:
        proof = check(it, receipts, level)
        assert proof == Proof(checks_of(level) - {Check.LINK}, frozenset())
        assert CUSTOM.required(checks_of(level), HEIGHT) == checks_of(level)
    assert check(it, receipts).proven == FULL - {Check.LINK}


@pytest.mark.parametrize(("broken", "level", "damage"), DAMAGES)
def test_damage_is_refused_starting_at_its_level(
    broken: Check, level: Level, damage: Damage
) -> None:
    it, receipts = block()
    damage(it, receipts)
    levels = list(Level)
    for weaker in levels[: levels.index(level)]:
        check(it, receipts, weaker)
    for stronger in levels[levels.index(level) :]:
        with pytest.raises(BadBlock) as refused:
            check(it, receipts, stronger)
        assert refused.value.check == broken
        assert refused.value.height == HEIGHT
        assert f"block 7 of `custom` fails the check `{broken}`" in str(refused.value)


def test_a_header_with_a_wrong_bloom_is_refused_even_if_its_hash_is_right() -> None:
    it, receipts = block(logs_bloom="0x" + "ff" * 256)
    with pytest.raises(BadBlock, match="do not match the bloom in its header"):
        check(it, receipts, Level.LINKS)


def test_a_wrong_transaction_hash_is_refused() -> None:
    it, receipts = block()
    it.transactions[0].hash = receipts[0].transaction_hash = it.parent_hash
    with pytest.raises(BadBlock, match="transaction 0 hashes to"):
        check(it, receipts)


def test_a_false_transaction_with_a_matching_hash_is_refused_by_the_root() -> None:
    """A careful liar hashes what it sends, so only the root exposes it."""
    it, receipts = block()
    false = it.transactions[1]
    false.value = "0x2"
    false.hash = receipts[1].transaction_hash = hexed(keccak(encoding.transaction(false)))
    check(it, receipts, RECEIPTS)
    with pytest.raises(BadBlock, match="its 2 transactions have the root"):
        check(it, receipts, COMMITTED)


def test_withdrawals_that_the_sealed_header_does_not_cover_are_refused() -> None:
    it, receipts = block(withdrawals_root=None)
    check(it, receipts, RECEIPTS)
    with pytest.raises(BadBlock, match="it has withdrawals or their root, but not both"):
        check(it, receipts, COMMITTED)


def test_receipts_that_were_not_requested_are_not_missing() -> None:
    it, _ = block()
    proof = check(it, None)
    assert proof.proven == checks_of(SIGNED, receipts=False) - {Check.LINK} | {Check.SENDERS}
    assert Check.RECEIPTS_ROOT in proof.unproven


def test_an_empty_block_is_valid_but_an_emptied_one_is_not() -> None:
    it, receipts = block(count=0)
    assert check(it, receipts).unproven == frozenset()
    whole, _ = block()
    whole.transactions = []
    with pytest.raises(BadBlock, match="its transactions root does not fit 0 transactions"):
        check(whole, [], Level.LINKS)


def test_a_transaction_of_an_unknown_type_leaves_only_the_transactions_unproven() -> None:
    _, receipts = block()
    receipts[0].type = "0x76"
    it, _ = block(receipts_root=hexed(ordered_root(list(map(encoding.receipt, receipts)))))
    it.transactions[0].type = "0x76"
    for each in receipts:
        each.block_hash = it.hash
    assert check(it, receipts).unproven == {Check.TRANSACTIONS_ROOT, Check.SENDERS}


def test_a_receipt_must_have_the_type_of_its_transaction() -> None:
    """Otherwise a node could claim an unknown type, and its transactions could not be proven."""
    it, receipts = block()
    it.transactions[0].type = "0x76"
    with pytest.raises(BadBlock, match="has type 0x76, but its receipt has type 0x"):
        check(it, receipts, COMMITTED)


def test_a_network_is_only_held_to_the_checks_that_it_supports() -> None:
    it, receipts = block()
    it.state_root = it.parent_hash
    proof = check(it, receipts, RECEIPTS, evm_network("stable"))
    assert proof.unproven == {Check.HEADER_HASH}
    assert proof.proven >= {Check.RECEIPTS_ROOT, Check.BLOOM, Check.GAS}


def test_where_transactions_may_lack_receipts_the_other_receipts_are_still_matched() -> None:
    it, receipts = block(count=3)
    cronos = evm_network("cronos")
    proof = check(it, [receipts[0], receipts[2]], ROOTED, cronos)
    assert proof.proven == {Check.HEIGHT, Check.PLACES, Check.RECEIPT_BLOOMS}
    for wrong in ([receipts[2], receipts[0]], [receipts[0], receipts[0]]):
        with pytest.raises(BadBlock, match="do not match its transactions"):
            check(it, wrong, LINKED, cronos)


def test_a_refusal_can_be_sent_to_another_process() -> None:
    error = BadBlock("what happened", height=7, check=Check.GAS, remedy=LowerLevel())
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.height, again.check) == ("what happened", 7, "gas")
    assert (again.remedy, again.hint) == (error.remedy, str(LowerLevel()))
