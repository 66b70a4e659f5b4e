"""Wallets on a chain that is followed, with crashes, reorganisations and endpoints that lie.

Few runs, so that the tests stay quick: `make simulate` makes more of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

import pytest

from gapless.chains.movements import Movement
from gapless.wallets import companion
from gapless.wallets.records import Scan
from gapless.wallets.search import Search
from tests.simulation.planting import Plant, assert_found
from tests.simulation.run import run_wallets
from tests.simulation.wallet_scenario import drawn_wallets

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
    assert {it.scan for it in drawn} == {True, False}
    assert {len(it.additions) for it in drawn} == {1, 2, 3}
    assert {each.is_detached for each in additions} == {True, False}
    assert {len(it.groups) for it in drawn} == {1, 2}
    assert [drawn_wallets(seed).scan for seed in SEEDS] == [True, False]


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
