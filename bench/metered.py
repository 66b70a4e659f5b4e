"""How much of a provider's budget is used if it is not configured.

The node refuses every batch that is larger than what is left of its budget, with a bare HTTP 429;
a second's worth is there at once, and is not counted. Then a node where each call may fail its
whole batch, of the time that a clean one takes.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

from bench.report import Row, at_least, at_most, median
from bench.runs import Room, room
from gapless.devnode import DevNode, Limits, Metering, Pace, Parameters, parse_faults, simulated

SECONDS = 30
BUDGETS = (15, 60, 200, 1000)  # calls per second
LATENCIES = (0.0, 0.1)
FAULTY_LATENCIES = (0.0, 0.02, 0.1)  # smaller batches are more round trips
FAULTS = "call-500=0.03,call-drop=0.01,call-malformed=0.01"
BLOCKS, ROUNDS = 2000, 3
CHAIN = Parameters(blocks=max(BUDGETS) * (SECONDS + 1) // 2 + 64, txs=2, seed=11)


async def measure() -> AsyncIterator[Row]:
    with room() as place:
        for latency in LATENCIES:
            for budget in BUDGETS:
                yield await _used(place, budget, latency)
        for latency in FAULTY_LATENCIES:
            yield await _faulty(place, latency)


async def _used(place: Room, budget: int, latency: float) -> Row:
    limits = Limits(rps=budget, metering=Metering.WHOLE, retry_after=None)
    blocks = budget * (SECONDS + 1) // 2  # of two calls
    async with DevNode(simulated(CHAIN), limits=limits, pace=Pace(latency=latency)) as node:
        found = await place.fetch(node.url, blocks, str(place.path(".db")))
    rate = (2 * blocks - budget) / found.seconds
    return Row(
        f"budget of {budget} calls/s used, {latency * 1000:.0f} ms",
        f"{rate:.0f} calls/s, {node.refused} of {node.requests} refused",
        rate / budget,
        at_least(0.7),
    )


async def _faulty(place: Room, latency: float) -> Row:
    ratios = []
    for seed in range(ROUNDS):
        seconds = []
        for faults in ("", FAULTS):
            chosen = parse_faults(faults, seed)
            pace = Pace(latency=latency)
            async with DevNode(simulated(CHAIN), faults=chosen, pace=pace) as node:
                found = await place.fetch(node.url, BLOCKS, str(place.path(".db")))
            seconds.append(found.seconds)
        ratios.append(seconds[1] / seconds[0])
    return Row(
        f"5 % of calls fail their batch, {latency * 1000:.0f} ms: time, of clean",
        f"{BLOCKS:,} blocks",
        median(ratios),
        at_most(4),
    )
