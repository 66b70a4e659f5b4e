"""Fetches that are killed, and one that wakes after its successor has finished."""

from __future__ import annotations

import asyncio
import random
import secrets
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest

from gapless.chains import families
from gapless.chains.family import Family
from gapless.core.ranges import Span
from gapless.devnode import Chain, DevNode, Pace, Parameters, simulated
from gapless.ledger import open_ledger
from tests import forks
from tests.conformance.fetch.stage import contents, truth_of
from tests.conformance.sink.conftest import ALL, SHARED, target_of
from tests.waiting import eventually

LAST = 300
SLOW = Pace(latency=0.03)
ROOT = Path(__file__).parents[2]
FAULTS = "500=0.01,drop=0.01,empty=0.002,wrong-block=0.002"
PROVABLE = {"evm": ",truncated=0.002", "tron": ""}  # nothing proves that no log is missing
RECEIPTS = {"evm": "eth_getBlockReceipts", "tron": "/wallet/gettransactioninfobyblocknum"}
EACH = pytest.mark.parametrize(
    ("family", "target"), [*(("evm", kind) for kind in ALL), ("tron", "sqlite")], indirect=True
)
EACH_SHARED = pytest.mark.parametrize(
    ("family", "target"), [*(("evm", kind) for kind in SHARED), ("tron", "sqlite")], indirect=True
)


@pytest.fixture
def target(request: pytest.FixtureRequest) -> str:
    return target_of(request, request.param)


@pytest.fixture
def family(request: pytest.FixtureRequest) -> Family:
    return next(each for each in families() if each.name == request.param)


@pytest.fixture
def chain(family: Family) -> Chain:
    return simulated(Parameters(blocks=LAST, txs=4, fewest=0, seed=11), family=family.name)


@asynccontextmanager
async def process(*command: str | Path) -> AsyncIterator[Process]:
    """A process that does not outlive the test."""
    started = await asyncio.create_subprocess_exec(*command, cwd=ROOT, stdout=PIPE, stderr=PIPE)
    try:
        yield started
    finally:
        if started.returncode is None:
            started.kill()
        await started.communicate()


def asked(node: DevNode, family: Family) -> int:
    return node.calls[RECEIPTS[family.name]]


def _has_gone_on(node: DevNode, family: Family, count: int, running: Process) -> bool:
    return asked(node, family) >= count or running.returncode is not None


def _is_suspended(running: Process) -> bool:
    """Suspends a process, unless it is writing to a file just now: nobody else could write then."""
    running.send_signal(signal.SIGSTOP)
    locks = Path("/proc/locks").read_text().splitlines()
    if any(line.split()[-4:-3] == [str(running.pid)] and " WRITE " in line for line in locks):
        running.send_signal(signal.SIGCONT)
        return False
    return True


@EACH
async def test_repeated_kills_lose_and_duplicate_nothing(
    family: Family, chain: Chain, target: str, tmp_path: Path
) -> None:
    seed = secrets.randbelow(10**9)
    chance = random.Random(seed)
    ledger = f"sqlite:///{tmp_path}/ledger.db"
    sizes = ("--chunk-size", "50", "--batch-size", "10", "--confirmations", "0")
    network, faults = family.networks[-1].name, FAULTS + PROVABLE[family.name]
    async with DevNode(chain, faults=faults, pace=SLOW) as node:
        where = ("--rpc", node.url, "--to", target, "--ledger", ledger)
        forks.shim(tmp_path)
        command = (tmp_path / "gapless", "fetch", network, f"0:{LAST}", *where, *sizes)
        for _ in range(2):
            before = asked(node, family)
            async with process(*command) as running:
                more = before + chance.randrange(5, 120)
                await eventually(partial(_has_gone_on, node, family, more, running))
                await asyncio.sleep(chance.random() / 20)
        async with process(*command) as running:
            said = (await running.communicate())[1].decode()
        assert running.returncode == 0, f"seed {seed}: {said}"
    stored = await contents(target, chain.chain_id, family)
    assert stored == truth_of(chain, Span(0, LAST), family), f"seed {seed}"
    opened = await open_ledger(ledger)
    assert await opened.check() == []
    await opened.close()


@EACH_SHARED
async def test_a_zombie_that_wakes_after_its_successor_changes_nothing(
    family: Family, chain: Chain, target: str, tmp_path: Path
) -> None:
    last = LAST - 64
    script = (sys.executable, "-m", "tests.acceptance.fetch_process")
    async with DevNode(chain, pace=SLOW) as node:
        ledger = f"sqlite:///{tmp_path}/ledger.db"
        command = (*script, family.networks[-1].name, node.url, f"0:{last}", target, ledger)
        async with process(*command) as zombie:
            await eventually(lambda: asked(node, family) > 60)
            await eventually(partial(_is_suspended, zombie))
            async with process(*command) as successor:
                out, err = await asyncio.wait_for(successor.communicate(), 60)
            assert (successor.returncode, out) == (0, b"SUCCEEDED\n"), err.decode()
            finished = await contents(target, chain.chain_id, family)
            zombie.send_signal(signal.SIGCONT)
            out, err = await asyncio.wait_for(zombie.communicate(), 60)
            assert (zombie.returncode, out) == (0, b"SUCCEEDED\n"), err.decode()
    assert finished == truth_of(chain, Span(0, last), family)
    assert await contents(target, chain.chain_id, family) == finished
