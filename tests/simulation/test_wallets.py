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
from gapless.devnode.evm.drafts import World
from gapless.wallets import coins, companion
from gapless.wallets.coins import Leaf
from gapless.wallets.records import Scan
from gapless.wallets.search import Search
from gapless.wallets.store import changing
from gapless.wallets.ways import Way
from tests.simulation.follow_scenario import drawn_follow
from tests.simulation.machine import Disk
from tests.simulation.planting import Plant, assert_found
from tests.simulation.run import Outcome, run_wallets
from tests.simulation.scenario import Incident, Kind
from tests.simulation.subjects import SUBJECTS
from tests.simulation.wallet_scenario import (
    ADDRESSES,
    CHAIN_SEED,
    LISTED,
    Addition,
    WalletScenario,
    drawn_wallets,
)

SEEDS = (0, 4)  # which scan every block, or search for events
RETRACTED_LATE = 50107
DRAWN = 20
MOST_SEEDS = 20


@pytest.mark.parametrize("seed", SEEDS)
def test_wallets_are_those_of_the_chain_whatever_goes_wrong(seed: int) -> None:
    outcome = run_wallets(seed)
    assert outcome.problem is None, str(outcome)


def retracted_late() -> WalletScenario:
    """Stored blocks leave the chain after a pass has searched them."""
    drawn = drawn_wallets(RETRACTED_LATE)
    bare = drawn_follow(RETRACTED_LATE, SUBJECTS["evm"])
    wallets, depth = World(CHAIN_SEED).wallets, 16
    incidents = (
        Incident(4.08385362057804, Kind.LEDGER_LOCK, 1, 41.0797370625095),
        Incident(7.54258099039046, Kind.CRASH, 5, 0.4426057627856699),
        Incident(24.950814787544985, Kind.DRAIN, 6, 4.616880745061014),
        Incident(38.25846708355709, Kind.CRASH, 5, 15.061838513999778),
        Incident(48.740926763590494, Kind.SINK_LOCK, 0, 2.649292837803177),
        Incident(49.88866387445295, Kind.LEDGER_LOCK, 6, 25.180638117588177),
        Incident(54.19153310248763, Kind.CRASH, 0, 5.574888013726987),
    )
    added = (
        (5.621298143791328, "ours", [2]),
        (4.52693911149445, "theirs", [4, 3, 11, 13, 5, 2]),
        (2.0384771917336195, "ours", [1, 14]),
    )
    return replace(
        drawn,
        follow=replace(
            drawn.follow,
            subject=bare.subject,
            head=81,
            start=0,
            finality_depth=depth,
            reorgs=bare.reorgs,
            followers=2,
            providers=tuple(
                replace(
                    it,
                    limits=replace(it.limits, finality_depth=depth),
                    visibility=replace(it.visibility, flap=min(it.visibility.flap, 8.0)),
                )
                for it in bare.providers
            ),
            disk=Disk(0.0005, 0.01),
            incidents=incidents,
        ),
        additions=tuple(
            Addition(at, group, tuple(wallets[it] for it in its), is_detached=True, way=Way.SCAN)
            for at, group, its in added
        ),
        workers=1,
        chunk_size=100,
        batch_size=10,
    )


def test_blocks_that_are_retracted_late_are_searched_again() -> None:
    outcome = run_wallets(RETRACTED_LATE, retracted_late())
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
