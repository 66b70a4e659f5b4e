"""Wallets on a chain that is followed, with crashes, reorganisations and endpoints that lie.

Few runs, so that the tests stay quick: `make simulate` makes more of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from gapless.chains.movements import Movement
from gapless.wallets import coins, companion
from gapless.wallets.coins import Leaf
from gapless.wallets.records import Scan
from gapless.wallets.search import Search
from gapless.wallets.store import changing
from gapless.wallets.ways import Way
from tests.simulation.planting import Plant, assert_found
from tests.simulation.run import Outcome, run_wallets
from tests.simulation.wallet_scenario import (
    ADDRESSES,
    LISTED,
    Addition,
    WalletScenario,
    drawn_wallets,
)

SEEDS = (0, 4)  # which scan every block, or search for events
RETRACTED_LATE = 50107  # stored blocks leave the chain after a pass has searched them
DRAWN = 20
MOST_SEEDS = 20


@pytest.mark.parametrize("seed", [*SEEDS, RETRACTED_LATE])
def test_wallets_are_those_of_the_chain_whatever_goes_wrong(seed: int) -> None:
    outcome = run_wallets(seed)
    assert outcome.problem is None, str(outcome)


def test_the_runs_cover_how_wallets_are_added() -> None:
    drawn = [drawn_wallets(seed) for seed in range(DRAWN)]
    additions = [each for it in drawn for each in it.additions]
    assert {it.is_scanned for it in drawn} == {True, False}
    assert {each.way for each in additions} == {*Way}
    assert {it.follow.subject.listed for it in drawn} == {"", LISTED}
    assert {it.workers for it in drawn} == {1, 2, 3, 4}
    limits = [each.limits for it in drawn for each in it.follow.providers]
    assert {each.traces for each in limits} == {True, False}
    assert {each.state_blocks for each in limits} > {None, 5}
    assert {it.follow.start == 0 for it in drawn} == {True, False}
    assert {len(it.additions) for it in drawn} == {1, 2, 3}
    assert {each.is_detached for each in additions} == {True, False}
    assert {len(it.groups) for it in drawn} == {1, 2}
    assert [drawn_wallets(seed).is_scanned for seed in SEEDS] == [True, False]


def receivers_are_not_watched(monkeypatch: pytest.MonkeyPatch) -> None:
    def by_sender(it: Movement, above: Mapping[bytes, int]) -> bool:
        return above.get(it.sender, it.block_number) < it.block_number

    monkeypatch.setattr(companion, "_is_watched", by_sender)


def scans_without_their_movements(monkeypatch: pytest.MonkeyPatch) -> None:
    store = Search._write

    async def write(self: Search, scan: Scan, found: Sequence[Movement]) -> None:
        await store(self, scan, [])
        await asyncio.sleep(15.0)  # so that a few runs are enough to be interrupted here
        await store(self, scan, found)

    monkeypatch.setattr(Search, "_write", write)


@pytest.mark.parametrize("plant", [receivers_are_not_watched, scans_without_their_movements])
def test_a_planted_bug_is_found(plant: Plant) -> None:
    assert_found(plant, "are not those of the chain", run_wallets, MOST_SEEDS)


def what_is_visible_remains(monkeypatch: pytest.MonkeyPatch) -> None:
    def rest(leaf: Leaf, *_: Any) -> int:
        return leaf.after.balance - leaf.before.balance

    monkeypatch.setattr(coins, "_rest", rest)


def traces_leave_remainders(monkeypatch: pytest.MonkeyPatch) -> None:
    def reduced(
        _: Any, gone: Sequence[Movement], found: Sequence[Movement]
    ) -> tuple[list[Movement], list[Movement]]:
        return [*gone], [*found]

    monkeypatch.setattr(changing, "_reduced", reduced)


def bisected_then_traced(seed: int) -> WalletScenario:
    """All wallets, in blocks that are not stored: by balances and nonces, then by traces."""
    drawn = drawn_wallets(seed)
    follow = drawn.follow
    able = replace(follow.providers[0], limits=replace(follow.providers[0].limits, traces=True))
    able = replace(able, faults="", limits=replace(able.limits, state_blocks=None))
    listed = replace(follow.subject, listed=LISTED)
    start = follow.head - 45
    return replace(
        drawn,
        follow=replace(follow, subject=listed, providers=(able,), start=start, incidents=()),
        additions=(
            Addition(0.0, "ours", tuple(ADDRESSES), is_detached=True, way=Way.EVENTS),
            Addition(60.0, "ours", tuple(ADDRESSES), is_detached=True, way=Way.TRACES),
        ),
    )


@pytest.mark.parametrize("plant", [what_is_visible_remains, traces_leave_remainders])
def test_a_planted_bug_about_what_blocks_hide_is_found(plant: Plant) -> None:
    def run(seed: int) -> Outcome:
        return run_wallets(seed, bisected_then_traced(seed))

    assert_found(plant, "is not what the chain hides", run, MOST_SEEDS)
