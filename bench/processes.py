"""A fetch by one process and by two, from a node that is faster than one core.

Workers that have already fetched something run it, so that no start is included: the figures are
from the creation of the backfill to its end, by the ledger's clock.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from bench.node_process import node
from bench.rendered import LARGE, SMALL, Workload
from bench.report import Row, at_least, median, median_ratio, per_second
from bench.runs import NETWORK, room
from gapless.core.backfill import State
from gapless.ledger import open_ledger

ROUNDS = 3
WARM = {SMALL: 200, LARGE: 40}  # blocks that are fetched first, into another sink
CHUNK = {SMALL: 500, LARGE: 50}
SLOTS = 4  # for all processes
CONFIGURATION = """
[endpoints.node]
url = "{url}"
network = "{network}"
[sinks.warm]
url = "warm-{sink}"
[sinks.chain]
url = "{sink}"
"""


async def measure() -> AsyncIterator[Row]:
    for workload in (SMALL, LARGE):
        async with node(workload) as running:
            for kind, sink in (("SQLite", "chain.db"), ("Parquet", "chain/")):
                taken: dict[int, list[float]] = {1: [], 2: []}
                for turn in range(ROUNDS):
                    for processes in sorted(taken, reverse=bool(turn % 2)):
                        seconds = await fetched(running.url, workload, sink, processes)
                        taken[processes].append(seconds)
                rates = [_rate(workload, taken[processes]) for processes in taken]
                yield Row(
                    f"2 processes relative to 1, {kind}, {workload.name}",
                    f"{per_second(rates[1])} and {per_second(rates[0])} blocks",
                    median_ratio(taken[1], taken[2]),
                    at_least(1.6),
                )


async def fetched(url: str, workload: Workload, sink: str, processes: int) -> float:
    """Seconds that workers take for all blocks of a workload."""
    warm, chunk = WARM[workload], CHUNK[workload]
    with room() as place:
        text = CONFIGURATION.format(url=url, network=NETWORK, sink=sink)
        (place.folder / "gapless.toml").write_text(text)
        async with _worker(place.folder, processes):
            await _backfill(place.folder, f"1:{warm}", "warm", warm // SLOTS)
            return await _backfill(place.folder, f"1:{workload.blocks}", "chain", chunk)


@asynccontextmanager
async def _worker(folder: Path, processes: int) -> AsyncIterator[None]:
    slots = ("--slots", f"default={SLOTS // processes}", "--processes", str(processes))
    worker = await _command(folder, "worker", "--poll", "10ms", *slots)
    try:
        yield
    finally:
        worker.terminate()
        await worker.communicate()


async def _backfill(folder: Path, heights: str, sink: str, chunk: int) -> float:
    """Seconds from the creation of a backfill to its end."""
    numbers = ("--chunk-size", str(chunk), "--max-concurrent", str(SLOTS))
    command = await _command(folder, "fetch", NETWORK, heights, "--to", sink, *numbers, "--detach")
    said, _ = await command.communicate()
    ledger = await open_ledger(f"sqlite:///{folder}/.gapless/ledger.db", create=False)
    try:
        while not (found := await ledger.backfill(said.decode().strip())).state.ended:  # noqa: ASYNC110
            await asyncio.sleep(0.02)  # other processes run it
    finally:
        await ledger.close()
    assert found.state is State.SUCCEEDED
    assert found.ended_at is not None
    return found.ended_at - found.created_at


async def _command(folder: Path, *arguments: str) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "gapless", *arguments),
        cwd=folder,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )


def _rate(workload: Workload, taken: list[float]) -> float:
    return workload.blocks / median(taken)
