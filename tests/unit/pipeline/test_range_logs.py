"""Logs without receipts: what their block, its bloom and another endpoint say about them."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy

import msgspec
import pytest

from gapless.chains import Level
from gapless.chains.evm.check_names import Check
from gapless.chains.evm.checks.check import check_block, check_range_logs
from gapless.chains.evm.decode.structs import Block, RangeLog
from gapless.chains.evm.networks import CUSTOM, EvmNetwork
from gapless.core.errors import BadBlock
from gapless.core.proof import Proof
from tests.evm import checks_of, evm_network
from tests.unit.checks.blocks import HEIGHT, block

Damage = Callable[[list[RangeLog]], object]


@pytest.fixture
def it() -> Block:
    return block(3)[0]


@pytest.fixture
def logs() -> list[RangeLog]:
    """The logs of the block, and one more that its bloom already contains."""
    _, receipts = block(3)
    found = [
        RangeLog(
            **{name: getattr(log, name) for name in msgspec.structs.asdict(log)},
            block_number=receipt.block_number,
            block_hash=receipt.block_hash,
            transaction_hash=receipt.transaction_hash,
            transaction_index=receipt.transaction_index,
        )
        for receipt in receipts
        for log in receipt.logs
    ]
    return [*found, deepcopy(found[-1])]


def check(
    it: Block,
    logs: list[RangeLog],
    others: list[RangeLog] | None,
    level: Level = Level.AUTO,
    network: EvmNetwork = CUSTOM,
) -> Proof:
    return check_range_logs(it, logs, others, network, checks_of(level), HEIGHT)


def test_one_endpoint_alone_is_not_agreement(it: Block, logs: list[RangeLog]) -> None:
    assert check(it, logs, None) == Proof(frozenset({Check.PLACES, Check.BLOOM}))


def test_two_endpoints_agree_in_any_notation(it: Block, logs: list[RangeLog]) -> None:
    others = deepcopy(logs)
    others[0].address = "0x" + others[0].address[2:].upper()
    others[0].log_index = "0x77"
    others[0].transaction_index = "0x00"
    assert check(it, logs, others).proven == {Check.PLACES, Check.BLOOM, Check.AGREED}


def test_agreement_is_added_to_what_the_block_proves(it: Block, logs: list[RangeLog]) -> None:
    alone = check_block(it, None, CUSTOM, checks_of(Level.AUTO), HEIGHT)
    both = alone | check(it, logs, deepcopy(logs))
    assert both.proven == alone.proven | {Check.BLOOM, Check.AGREED}
    assert both.unproven == alone.unproven - {Check.BLOOM}


DAMAGES: dict[str, tuple[Check, Damage]] = {
    "another branch": (Check.PLACES, lambda logs: setattr(logs[0], "block_hash", "0x00")),
    "removed": (Check.PLACES, lambda logs: setattr(logs[0], "removed", True)),
    "another transaction": (
        Check.PLACES,
        lambda logs: setattr(logs[0], "transaction_index", "0x9"),
    ),
    "none": (Check.BLOOM, lambda logs: logs.clear()),
    "not in the bloom": (Check.BLOOM, lambda logs: setattr(logs[0], "address", f"0x{9:040x}")),
    "not hex": (Check.BLOOM, lambda logs: setattr(logs[0], "address", "0xzz")),
    "a lost one that the bloom does not notice": (Check.AGREED, lambda logs: logs.pop()),
    "altered data": (Check.AGREED, lambda logs: setattr(logs[0], "data", "0x01")),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damage_is_refused_by_name(it: Block, logs: list[RangeLog], damage: str) -> None:
    check_name, harm = DAMAGES[damage]
    others = deepcopy(logs)
    harm(logs)
    with pytest.raises(BadBlock, match=f"fails the check `{check_name}`"):
        check(it, logs, others)
    assert check(it, logs, others, Level.OFF) == Proof()


def test_another_endpoint_that_is_certainly_wrong_is_ignored(
    it: Block, logs: list[RangeLog]
) -> None:
    """Pruned nodes tend to return an empty list."""
    assert check(it, logs, []).proven == {Check.PLACES, Check.BLOOM}


def test_without_a_bloom_to_decide_any_difference_is_refused(
    it: Block, logs: list[RangeLog]
) -> None:
    network = evm_network("cronos")
    assert Check.BLOOM not in network.checks_at(HEIGHT)
    with pytest.raises(BadBlock, match="agreed"):
        check(it, logs, [], network=network)
