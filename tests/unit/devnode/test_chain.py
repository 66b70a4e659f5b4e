"""The simulated chain is valid and deterministic, and contains what real chains contain."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from gapless.core.errors import UsageError
from gapless.core.remedies import ChooseCache
from gapless.devnode import Chain, Parameters, simulated
from gapless.devnode.evm.blocks import EvmBuilder
from gapless.devnode.evm.drafts import APPROVAL, TRANSFER, TRANSFER_BATCH, TRANSFER_SINGLE
from gapless.devnode.store import BLOCKS, INFO, stored
from tests.unit.devnode.asking import assert_valid, decoded

SMALL = Parameters(blocks=12, txs=3)


def test_every_block_is_proven_at_the_highest_level(chain: Chain) -> None:
    assert chain.head == 120
    assert_valid(chain)


@pytest.mark.parametrize("txs", [0, 1, 16, 17, 128, 129, 150])
def test_any_number_of_transactions_is_valid(tmp_path: Path, txs: int) -> None:
    chain = simulated(Parameters(blocks=3, txs=txs, seed=txs), tmp_path)
    assert len(decoded(chain, 1)[0].transactions) == txs
    assert_valid(chain)


def test_it_contains_what_real_chains_contain(chain: Chain) -> None:
    types: Counter[str | None] = Counter()
    outcomes: Counter[str | None] = Counter()
    events: Counter[tuple[str, int]] = Counter()
    empty = created = withdrawals = unwithdrawn = 0
    for height in range(chain.head + 1):
        block, receipts = decoded(chain, height)
        types.update(each.type for each in block.transactions)
        outcomes.update(each.status for each in receipts)
        created += sum(each.contract_address is not None for each in receipts)
        empty += not block.transactions
        withdrawals += bool(block.withdrawals)
        unwithdrawn += block.withdrawals == []
        events.update(
            (log.topics[0] if log.topics else "", len(log.topics))
            for each in receipts
            for log in each.logs
        )
    assert set(types) == {"0x0", "0x1", "0x2", "0x3", "0x4"}
    assert min(outcomes["0x0"], created, empty, withdrawals, unwithdrawn) > 0
    wanted = [(TRANSFER, 3), (TRANSFER, 4), (TRANSFER_SINGLE, 4), (TRANSFER_BATCH, 4)]
    wanted += [(APPROVAL, 3), ("", 0)]
    assert [event for event in wanted if not events[event]] == []


def test_equal_parameters_make_equal_chains(tmp_path: Path) -> None:
    first, second = (stored(EvmBuilder(SMALL), tmp_path / name) for name in ("a", "b"))
    assert first.info.digest == second.info.digest
    other = stored(EvmBuilder(Parameters(blocks=12, txs=3, seed=1)), tmp_path / "a")
    assert other.info.digest != first.info.digest
    longer = simulated(Parameters(blocks=14, txs=3), tmp_path / "a")
    assert longer.block(12) == simulated(SMALL, tmp_path / "a").block(12)


def test_the_chain_is_that_of_this_version(tmp_path: Path) -> None:
    """Changing the simulation requires a new version; otherwise caches would keep old blocks."""
    head = simulated(SMALL, tmp_path).hash(12)
    assert head == "0x8d59488c5ff73ae990606a60e6fea79196dd0a16f1097a14a16b2b8034a2da2a"


def test_a_chain_is_built_once(tmp_path: Path) -> None:
    stored(EvmBuilder(SMALL), tmp_path)
    (folder,) = (tmp_path / "devnode").iterdir()
    assert folder.name == "12x3-seed0-9111a228edbe9139", "older versions wrote to the same folder"
    before = (folder / BLOCKS).stat()
    stored(EvmBuilder(SMALL), tmp_path)
    assert (folder / BLOCKS).stat().st_ino == before.st_ino
    assert [each.name for each in (tmp_path / "devnode").iterdir()] == [folder.name]


@pytest.mark.parametrize("damage", ["flipped", "cut", "gone", "nonsense"])
def test_a_damaged_chain_is_rebuilt(tmp_path: Path, damage: str) -> None:
    whole = stored(EvmBuilder(SMALL), tmp_path)
    blocks = list(whole.blocks)
    (folder,) = (tmp_path / "devnode").iterdir()
    text = (folder / BLOCKS).read_bytes()
    (folder / BLOCKS).unlink()  # the old file stays mapped
    if damage == "flipped":
        (folder / BLOCKS).write_bytes(text.replace(b"0x1", b"0x2", 1))
    elif damage == "cut":
        (folder / BLOCKS).write_bytes(text[:-10])
    elif damage == "nonsense":
        (folder / BLOCKS).write_bytes(text)
        (folder / INFO).write_text("{")
    again = stored(EvmBuilder(SMALL), tmp_path)
    assert list(again.blocks) == blocks
    assert again.info.digest == whole.info.digest
    assert len(list((tmp_path / "devnode").iterdir())) == 1


def test_an_unwritable_cache_is_explained(tmp_path: Path) -> None:
    (tmp_path / "devnode").write_text("in the way")
    with pytest.raises(UsageError, match="cannot store the chain") as raised:
        stored(EvmBuilder(SMALL), tmp_path)
    assert raised.value.remedy == ChooseCache()


def test_many_processes_may_build_the_same_chain(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        digests = {
            each.info.digest for each in pool.map(stored, [EvmBuilder(SMALL)] * 8, [tmp_path] * 8)
        }
    assert len(digests) == 1
    assert len(list((tmp_path / "devnode").iterdir())) == 1


def test_a_growing_chain_equals_a_longer_one(tmp_path: Path) -> None:
    chain = simulated(SMALL, tmp_path)
    chain.grow(5)
    longer = simulated(Parameters(blocks=17, txs=3), tmp_path)
    assert chain.head == 17
    assert [chain.block(at) for at in range(18)] == [longer.block(at) for at in range(18)]


def test_a_chain_may_start_with_a_lower_head(tmp_path: Path) -> None:
    chain = simulated(SMALL, tmp_path)
    tip = chain.hash(12)
    chain.start_at(4)
    assert (chain.head, chain.height_of(tip)) == (4, None)
    chain.grow(8)
    assert (chain.head, chain.height_of(tip)) == (12, 12)


def test_a_reorganised_chain_is_a_different_valid_chain(chain: Chain) -> None:
    before = [chain.hash(height) for height in range(chain.head + 1)]
    gone = decoded(chain, 103)[0].transactions
    chain.reorg(100)
    after = [chain.hash(height) for height in range(chain.head + 1)]
    assert len(after) == len(before) + 1
    assert after[:100] == before[:100]
    assert set(after[100:]).isdisjoint(before)
    assert chain.height_of(before[101]) is None
    assert chain.height_of(after[101]) == 101
    assert all(chain.transaction(each.hash) is None for each in gone)
    chain.reorg(110)
    chain.reorg(90)
    chain.grow(3)
    assert chain.head == 126
    assert_valid(chain, 80)


def test_only_existing_blocks_can_be_replaced(chain: Chain) -> None:
    for height in (0, 121):
        with pytest.raises(ValueError, match="no block"):
            chain.reorg(height)
