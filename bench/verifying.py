"""What it costs to prove blocks: a fetch with `--verify auto` compared with `off`.

Twice with a node that never waits, where the processor is the limit: large blocks are written to
Parquet, which leaves the proofs the largest share. Once with a provider that allows a hundred calls
per second, where the proofs have all the time they need.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

from bench.conditions import Conditions
from bench.node_process import node
from bench.rendered import LARGE, SMALL
from bench.report import Bound, Row, at_least, median, median_ratio
from bench.runs import room

ROUNDS = 3
CALLS_PER_SECOND = 100
PACED_BLOCKS = 600


async def measure() -> AsyncIterator[Row]:
    for workload, suffix, bound in ((SMALL, ".db", at_least(0.5)), (LARGE, "/", at_least(0.8))):
        async with node(workload) as running:
            name = f"verify auto relative to off, {workload.name}, CPU-bound"
            yield await _compared(name, running.url, workload.blocks, bound, suffix)
    async with node(SMALL, Conditions(rps=CALLS_PER_SECOND)) as running:
        name = f"verify auto relative to off, {CALLS_PER_SECOND} calls/s"
        yield await _compared(name, running.url, PACED_BLOCKS, at_least(0.95))


async def _compared(name: str, url: str, blocks: int, bound: Bound, suffix: str = ".db") -> Row:
    taken: dict[str, list[float]] = {"auto": [], "off": []}
    with room() as place:
        for turn in range(ROUNDS):
            for level in sorted(taken, reverse=bool(turn % 2)):
                target = f"{place.path('')}{suffix}"
                found = await place.fetch(url, blocks, target, verify=level)
                taken[level].append(found.seconds)
    rates = {level: blocks / median(seconds) for level, seconds in taken.items()}
    figure = f"{rates['auto']:.0f} of {rates['off']:.0f} blocks/s"
    return Row(name, figure, median_ratio(taken["off"], taken["auto"]), bound)
