"""A live chain grows and reorganises as its seed decides, and stays cheap."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from msgspec import Raw

from gapless.devnode import Chain, DevNode, Growth, Limits, Parameters, ReorgSchedule, simulated
from gapless.devnode.chain import Move
from gapless.devnode.evm.methods import answer
from gapless.devnode.view import View
from tests.unit.devnode.asking import assert_valid

SMALL = Parameters(blocks=20, txs=2, seed=5)


def history(chain: Chain, schedule: ReorgSchedule, steps: int) -> list[tuple[Move, str]]:
    """Each move of the chain, and the hash of its new head."""
    moves: list[tuple[Move, str]] = []
    chain.listeners.append(lambda move: moves.append((move, chain.hash(move.last))))
    growth = Growth(chain, schedule)
    for _ in range(steps):
        growth.step()
    return moves


def test_equal_seeds_give_equal_histories(tmp_path: Path) -> None:
    schedule = ReorgSchedule(5, depth=4, seed=1)
    first, second = (history(simulated(SMALL, tmp_path), schedule, 100) for _ in range(2))
    assert first == second
    other = history(simulated(SMALL, tmp_path), ReorgSchedule(5, depth=4, seed=2), 100)
    assert other != first


def test_one_reorg_in_every_so_many_steps(tmp_path: Path) -> None:
    chain = simulated(SMALL, tmp_path)
    moves = [move for move, _ in history(chain, ReorgSchedule(5, depth=4, seed=1), 200)]
    assert len(moves) == 200
    for start in range(0, 200, 5):
        assert sum(move.reorg for move in moves[start : start + 5]) == 1
    assert len({at % 5 for at, move in enumerate(moves) if move.reorg}) > 1, "at seeded times"
    heads = [20, *(move.last for move in moves)]
    depths = {
        before - move.first + 1 for before, move in zip(heads, moves, strict=False) if move.reorg
    }
    assert depths == {1, 2, 3, 4}
    changes = {move.last - before for before, move in zip(heads, moves, strict=False) if move.reorg}
    assert changes == {-1, 0, 1}, "a new branch may be shorter for a moment"
    assert_valid(chain)


def test_the_genesis_is_never_replaced(tmp_path: Path) -> None:
    chain = simulated(SMALL, tmp_path)
    genesis = chain.hash(0)
    chain.start_at(0)
    for move, _ in history(chain, ReorgSchedule(1, depth=9), 40):
        assert move.first > 0
    assert chain.hash(0) == genesis
    assert_valid(chain)


@pytest.mark.parametrize(("every", "depth"), [(0, 1), (1, 0)])
def test_an_impossible_schedule(every: int, depth: int) -> None:
    with pytest.raises(ValueError, match="at least one"):
        ReorgSchedule(every, depth)


def test_a_new_branch_has_at_least_one_block(chain: Chain) -> None:
    chain.reorg(118, extra=-2)
    assert chain.head == 118
    with pytest.raises(ValueError, match="has no block"):
        chain.reorg(117, extra=-2)
    assert chain.highest == 120


def test_blocks_that_are_no_longer_in_memory_are_built_again(tmp_path: Path) -> None:
    parameters = Parameters(blocks=5, txs=1, seed=3)
    chain, longer = simulated(parameters, tmp_path), Parameters(blocks=1600, txs=1, seed=3)
    chain.grow(1595)
    whole = simulated(longer, tmp_path)
    for height in (6, 7, 500, 1600):
        assert chain.block(height) == whole.block(height)
        assert chain.receipts(height) == whole.receipts(height)
    assert chain.height_of(whole.hash(6)) == 6


def test_hashes_are_found_across_reorgs(chain: Chain) -> None:
    """The index of hashes and transactions is built once, not after each reorganisation."""
    old = {height: chain.hash(height) for height in range(100, 121)}
    assert chain.height_of(old[120]) == 120
    transaction = json.loads(chain.block(118))["transactions"][0]["hash"]
    assert chain.transaction(transaction) == (118, 0)
    chain.reorg(115)
    assert chain.height_of(old[114]) == 114
    assert chain.height_of(old[115]) is None
    assert chain.transaction(transaction) is None
    assert chain.height_of(chain.hash(121)) == 121
    chain.reorg(121, extra=0)
    chain.grow()
    assert [chain.height_of(chain.hash(at)) for at in (120, 121, 122)] == [120, 121, 122]


def test_the_finalized_tag_never_moves_back(tmp_path: Path) -> None:
    chain = simulated(SMALL, tmp_path)
    node = DevNode(chain, limits=Limits(finality_depth=10, safe_depth=5))
    growth = Growth(chain, ReorgSchedule(2, depth=4, seed=8))
    tags: dict[str, list[int]] = {"safe": [], "finalized": []}
    fell = 0
    for _ in range(100):
        before = chain.head
        growth.step()
        fell += chain.head < before
        for tag, seen in tags.items():
            view = View(chain, chain.head, node.limits, highest=chain.highest)
            params = Raw(json.dumps([tag, False]).encode())
            seen.append(int(json.loads(answer(view, "eth_getBlockByNumber", params))["number"], 16))
    assert fell > 5
    for depth, seen in ((5, tags["safe"]), (10, tags["finalized"])):
        assert seen == sorted(seen)
        assert seen[-1] == chain.highest - depth


def test_the_handle_of_a_node(chain: Chain) -> None:
    node = DevNode(chain)
    node.advance(3)
    old = [node.canonical(height) for height in range(119, 124)]
    node.reorg(2)
    assert chain.head == 124
    new = [node.canonical(height) for height in range(119, 124)]
    assert [a == b for a, b in zip(old, new, strict=True)] == [True, True, True, False, False]
    node.reorg(3, length=1)
    assert chain.head == 122
    assert {height: built.hash for height, built in chain.replaced.items()}[123] == new[4]
    assert_valid(chain, 118)
