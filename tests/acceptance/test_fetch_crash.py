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
from pathlib import Path

import pytest

from gapless.core.ranges import Span
from gapless.devnode import DevNode, Pace, Parameters, simulated
from gapless.ledger import open_ledger
from tests import forks
from tests.conformance.fetch.stage import contents, truth
from tests.conformance.sink.conftest import ALL, SHARED, target_of
from tests.waiting import eventually

LAST = 300
SLOW = Pace(latency=0.03)
ROOT = Path(__file__).parents[2]
FAULTS = "500=0.01,drop=0.01,truncated=0.002,empty=0.002,wrong-block=0.002"


@pytest.fixture(params=ALL)
def target(request: pytest.FixtureRequest) -> str:
    return target_of(request, request.param)


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


def asked(node: DevNode) -> int:
    return node.calls["eth_getBlockReceipts"]


async def test_repeated_kills_lose_and_duplicate_nothing(target: str, tmp_path: Path) -> None:
    seed = secrets.randbelow(10**9)
    chance = random.Random(seed)
    chain = simulated(Parameters(blocks=LAST, txs=4, fewest=0, seed=11))
    ledger = f"sqlite:///{tmp_path}/ledger.db"
    sizes = ("--chunk-size", "50", "--batch-size", "10", "--confirmations", "0")
    async with DevNode(chain, faults=FAULTS, pace=SLOW) as node:
        where = ("--rpc", node.url, "--to", target, "--ledger", ledger)
        forks.shim(tmp_path)
        command = (tmp_path / "gapless", "fetch", "custom", f"0:{LAST}", *where, *sizes)
        for _ in range(2):
            before = asked(node)
            async with process(*command) as running:
                more = before + chance.randrange(5, 120)
                await eventually(lambda m=more: asked(node) >= m or running.returncode is not None)  # type: ignore[misc]
                await asyncio.sleep(chance.random() / 20)
        async with process(*command) as running:
            said = (await running.communicate())[1].decode()
        assert running.returncode == 0, f"seed {seed}: {said}"
    assert await contents(target) == truth(chain, Span(0, LAST)), f"seed {seed}"
    opened = await open_ledger(ledger)
    assert await opened.check() == []
    await opened.close()


@pytest.mark.parametrize("target", SHARED, indirect=True)
async def test_a_zombie_that_wakes_after_its_successor_changes_nothing(
    target: str, tmp_path: Path
) -> None:
    chain = simulated(Parameters(blocks=LAST, txs=4, fewest=0, seed=11))
    last = LAST - 64
    script = (sys.executable, "-m", "tests.acceptance.fetch_process")
    async with DevNode(chain, pace=SLOW) as node:
        command = (*script, node.url, f"0:{last}", target, f"sqlite:///{tmp_path}/ledger.db")
        async with process(*command) as zombie:
            await eventually(lambda: asked(node) > 60)
            zombie.send_signal(signal.SIGSTOP)
            async with process(*command) as successor:
                out, err = await asyncio.wait_for(successor.communicate(), 60)
            assert (successor.returncode, out) == (0, b"SUCCEEDED\n"), err.decode()
            finished = await contents(target)
            zombie.send_signal(signal.SIGCONT)
            out, err = await asyncio.wait_for(zombie.communicate(), 60)
            assert (zombie.returncode, out) == (0, b"SUCCEEDED\n"), err.decode()
    assert finished == truth(chain, Span(0, last))
    assert await contents(target) == finished
