"""How well latency is hidden: a slow node, asked by several workers at once.

Batches are pinned to one block, so that a request is a block and the maximum is `workers / latency`
requests per second. The last row has nothing pinned: a node that takes a second for every request,
and five thousand blocks.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from time import time

from bench.conditions import Conditions
from bench.node_process import node
from bench.rendered import SMALL
from bench.report import Row, at_least, at_most, median
from bench.runs import Room, room
from gapless.providers import Learned, Profile

LATENCY = 0.2
ROUNDS = 3
TURNS = 30  # how often each worker asks


async def measure() -> AsyncIterator[Row]:
    with room() as place:
        async with node(SMALL, Conditions(latency_ms=LATENCY * 1000)) as running:
            for workers in (8, 32):
                yield await _hidden(place, running.url, workers)
        async with node(SMALL, Conditions(latency_ms=1000)) as running:
            target = str(place.path(".db"))
            found = await place.fetch(running.url, SMALL.blocks, target, workers=8)
        name = f"{SMALL.blocks:,} blocks at 1 s per request, 8 workers, seconds"
        yield Row(name, f"{found.requests} requests", found.seconds, at_most(60))


async def _hidden(place: Room, url: str, workers: int) -> Row:
    best, blocks = workers / LATENCY, TURNS * workers
    rates = []
    for _ in range(ROUNDS):
        target = str(place.path(".db"))
        one_block = Profile(batch_calls=Learned(2, time()))
        found = await place.fetch(url, blocks, target, one_block, workers=workers)
        rates.append(blocks / found.seconds)
    return Row(
        f"latency hidden, {workers} workers, {LATENCY * 1000:.0f} ms",
        f"{median(rates):.0f} of {best:.0f} requests/s",
        median(rates) / best,
        at_least(0.9),
    )
