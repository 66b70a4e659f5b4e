"""Workers that search and classify wallets, and are killed again and again.

Some are killed from outside, at any moment. Others kill themselves right after the sink has
committed a part, before the ledger hears of it: there, a movement could be lost or counted twice.
"""

from __future__ import annotations

import random
import secrets
import signal
from collections.abc import AsyncIterator, Iterable
from dataclasses import replace
from pathlib import Path

import pytest

import gapless
from gapless.devnode import Chain, DevNode, Pace, simulated
from gapless.devnode.evm.postings import COINS
from gapless.ledger.syncs import SyncState
from gapless.wallets.records import Balance, HistoryItem
from tests.acceptance.fleet import Fleet, WorkerProcess, until
from tests.conformance.sink.conftest import target_of
from tests.conformance.wallets.stage import (
    LAST,
    PARAMETERS,
    WALLETS,
    Amounts,
    amounts,
    balances,
    explanation,
    history,
    truth,
)
from tests.support import Home, PostgresHome, SqliteHome, open_at

GROUPS = {"ours": WALLETS[:20], "theirs": WALLETS[10:24]}  # some wallets are in both
LISTED, CHAIN = "base-goerli", 84_531  # where balances and nonces show how coins moved
WAYS = ["scan", "events"]
DEATHS, KILLS, WORKERS = 6, 4, 3
_MORTAL = """
import os, signal
from gapless.wallets.store import WalletStore

left = {commits}

def mortal(name):
    commit = getattr(WalletStore, name)

    async def and_die(*arguments, **named):
        global left
        result = await commit(*arguments, **named)
        left -= 1
        if not left:
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    setattr(WalletStore, name, and_die)

for each in ("write", "add_members", "replace_entries", "settle"):
    mortal(each)
"""

Found = dict[str, tuple[list[HistoryItem], list[Balance]]]


@pytest.fixture(params=["sqlite", "postgres"])
def kind(request: pytest.FixtureRequest) -> str:
    """The database of both the ledger and the sink."""
    return str(request.param)


@pytest.fixture
def home(request: pytest.FixtureRequest, kind: str, tmp_path: Path) -> Home:
    if kind == "sqlite":
        return SqliteHome(tmp_path / "ledger.db")
    return PostgresHome(request.getfixturevalue("postgres_url"))


@pytest.fixture
def target(request: pytest.FixtureRequest, kind: str) -> str:
    return target_of(request, kind)


@pytest.fixture
def chain() -> Chain:
    return simulated(replace(PARAMETERS, chain_id=CHAIN))


@pytest.fixture
async def node(
    chain: Chain, target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[DevNode]:
    """A node, and a configuration that names it and the sink for all processes."""
    async with DevNode(chain, pace=Pace(latency=0.01)) as node:
        settings = tmp_path / "gapless.toml"
        settings.write_text(
            f'[endpoints.main]\nurl = "{node.url}"\nnetwork = "{LISTED}"\n'
            f'[sinks.main]\nurl = "{target}"\n'
        )
        monkeypatch.setenv("GAPLESS_CONFIG", str(settings))
        yield node


async def _contents(target: str) -> Found:
    return {
        group: (
            await history(target, group),
            [_timeless(each) for each in await balances(target, group, CHAIN)],
        )
        for group in GROUPS
    }


def _timeless(found: Balance) -> Balance:
    """A balance without the number of the run that settled it."""
    fields = {name: getattr(found, name) for name in Balance.__struct_fields__}
    return Balance(**{**fields, "epoch": 0})


def _shown(chain: Chain, way: str, wallets: Iterable[str]) -> dict[str, Amounts]:
    """What the history of each wallet adds up to; balances and nonces show all of its coins."""
    shown = truth(chain, LAST, wallets)
    if way == "events":
        for wallet, its in shown.items():
            its[COINS] = explanation(chain, LAST, wallet)[COINS].balance
    return shown


async def _undisturbed(node: DevNode, folder: Path, way: str) -> Found:
    for group, wallets in GROUPS.items():
        await gapless.add_wallets(
            wallets,
            LISTED,
            rpc=node.url,
            to=folder / "calm.db",
            ledger=f"sqlite:///{folder}/calm-ledger.db",
            group=group,
            scan=way == "scan",
        )
    return await _contents(str(folder / "calm.db"))


class _Storm:
    """Replaces workers that have died, and kills others, until enough of them were killed."""

    def __init__(self, fleet: Fleet, seed: int) -> None:
        self._fleet, self._chance = fleet, random.Random(seed)
        self.deaths = self.kills = 0
        self._workers = [self._new() for _ in range(WORKERS)]

    def _new(self) -> WorkerProcess:
        mortal = _MORTAL.format(commits=self._chance.randint(1, 5))
        return self._fleet.worker(prelude=mortal if self.deaths < DEATHS else "")

    def rage(self) -> None:
        for nth, worker in enumerate(self._workers):
            if not worker.running:
                assert worker.forked.returncode == -signal.SIGKILL, worker
                self.deaths += 1
                self._workers[nth] = self._new()
            elif worker.is_up and self.kills < KILLS and self._chance.random() < 0.05:
                worker.kill()
                self.kills += 1
                self._workers[nth] = self._new()


@pytest.mark.parametrize("way", WAYS)
async def test_killed_workers_lose_and_repeat_nothing(
    node: DevNode, chain: Chain, home: Home, target: str, way: str, tmp_path: Path
) -> None:
    calm = await _undisturbed(node, tmp_path, way)
    for group, wallets in GROUPS.items():
        await gapless.add_wallets(
            wallets,
            LISTED,
            to="main",
            ledger=home.url,
            group=group,
            scan=way == "scan",
            detach=True,
            chunk_size=20,
            batch_size=4,
        )
    seed = secrets.randbelow(10**9)
    ledger = await open_at(home)
    done = 0.0

    async def synced() -> bool:
        """Whether all is stored and classified; what was done once stays done."""
        nonlocal done
        storm.rage()
        syncs = await ledger.syncs()
        progress = sum(each.progress.done for each in syncs)
        assert progress >= done, f"seed {seed}: progress was lost"
        done = progress
        if {each.state for each in syncs} != {SyncState.COMPLETE}:
            return False
        await ledger.close_epochs(hurry=True)
        hooks = [each for each in await ledger.backfills() if each.job == "classify"]
        return len(hooks) >= len(GROUPS) and all(each.state.ended for each in hooks)

    try:
        async with Fleet.at(home.url, tmp_path) as fleet:
            storm = _Storm(fleet, seed)
            await until(synced, "all wallets synced and classified")
            assert storm.deaths >= 1, f"seed {seed}: nobody has died after a commit"
            assert await ledger.check() == []
    finally:
        await ledger.close()
    found = await _contents(target)
    assert found == calm, f"seed {seed}"
    for group, wallets in GROUPS.items():
        assert amounts(found[group][1]) == _shown(chain, way, wallets), f"seed {seed}"
