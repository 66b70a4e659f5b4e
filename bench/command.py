"""The command as a person runs it: its response time, and the memory that a long range takes."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.node_process import node
from bench.rendered import LONG, SMALL
from bench.report import Row, at_most, median
from bench.runs import NETWORK, Room, room

ROUNDS = 5
SHORT = LONG.blocks // 10


@dataclass(frozen=True)
class Ran:
    seconds: float
    peak: int  # bytes


async def measure_start() -> AsyncIterator[Row]:
    """Response times, each of them in every round, so that all meet the same load."""
    async with node(SMALL) as running:
        with room() as place:
            await _fetch(place, running.url, 1)  # the node derives answers at the first request
            ways: dict[str, Callable[[], Awaitable[Ran]]] = {
                "null": lambda: _weighed("-c", "pass"),
                "imports": lambda: _weighed("-c", "import gapless.cli.fetch"),
                "help": lambda: _run(["--help"]),
                "fetch": lambda: _fetch(place, running.url, 1),
            }
            rounds = [{name: await run() for name, run in ways.items()} for _ in range(ROUNDS)]
    seconds = {name: median(each[name].seconds for each in rounds) for name in ways}
    yield Row("`gapless --help`, seconds", "", seconds["help"], at_most(0.3))
    beside = f"imports {seconds['imports']:.2f} s, Python {seconds['null']:.2f} s"
    name = "start-up: a fetch of one block, stored, seconds"
    yield Row(name, beside, seconds["fetch"], at_most(0.5))


async def measure_memory() -> AsyncIterator[Row]:
    async with node(LONG) as running:
        with room() as place:
            short = await _fetch(place, running.url, SHORT)
            long = await _fetch(place, running.url, LONG.blocks)
    for blocks, ran in ((SHORT, short), (LONG.blocks, long)):
        name = f"peak memory of fetching {blocks:,} blocks, MiB"
        yield Row(name, f"{ran.seconds:.0f} s", ran.peak / 2**20, at_most(200))
    name = f"peak memory, {LONG.blocks:,} relative to {SHORT:,} blocks"
    yield Row(name, "", long.peak / short.peak, at_most(1.2))


async def _fetch(place: Room, url: str, blocks: int) -> Ran:
    sink, ledger = place.path(".db"), place.path(".ledger.db")
    wish = ["fetch", NETWORK, f"1:{blocks}", "--rpc", url, "--to", str(sink)]
    return await _run([*wish, "--ledger", f"sqlite:///{ledger}"])


async def _run(arguments: Sequence[str]) -> Ran:
    return await _weighed("-m", "gapless", *arguments)


async def _weighed(*arguments: str) -> Ran:
    """Runs Python with these arguments."""
    weighed = [sys.executable, "-IS", str(Path(__file__).with_name("weighed.py"))]
    process = await asyncio.create_subprocess_exec(
        *(*weighed, sys.executable, *arguments), stdout=asyncio.subprocess.PIPE
    )
    said, _ = await process.communicate()
    assert process.returncode == 0, arguments
    seconds, peak = said.split()
    return Ran(float(seconds), int(peak))
