"""Claiming and completing in batches of k, compared with the bare statements.

Gapless chooses the backfill, enforces its limit, looks for lost and failed chunks, plans the chunks
that it claims in batches of 256, and writes every event; for the bare statements, chunks are
already planned.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack

from bench.bare import open_bare
from bench.places import Place
from bench.report import Row, at_least, median, median_ratio, per_second
from bench.work import claim_and_complete, create
from gapless.ledger import open_ledger

ROUNDS = 7
BATCHES = {1: 128, 10: 52, 100: 26}  # Gapless plans in all of them
WARM_UP = 1
GOAL = 0.7
"""Of the bare statements with events: what choosing, limits, recovery and planning may cost."""
OURS, BARE, EVENTS = "gapless", "bare", "bare + events"


async def measure(place: Place) -> AsyncIterator[Row]:
    for k, batches in BATCHES.items():
        rates = await _rates(place, k, batches)
        label = f"claim + complete, k = {k}, {place.name}"
        for name in (BARE, EVENTS, OURS):
            yield Row(f"{label}: {name}", per_second(median(rates[name])))
        yield Row(f"{label}: of bare", "", median_ratio(rates[OURS], rates[BARE]))
        yield Row(
            f"{label}: of bare + events",
            "",
            median_ratio(rates[OURS], rates[EVENTS]),
            at_least(GOAL),
        )


async def _rates(place: Place, k: int, batches: int) -> dict[str, list[float]]:
    chunks = k * (batches + WARM_UP) * ROUNDS
    async with AsyncExitStack() as stack:
        ledger = await open_ledger(await place.fresh())
        stack.push_async_callback(ledger.close)
        await create(ledger, "bf", chunks)
        steps: dict[str, Callable[[int], Awaitable[int]]] = {
            OURS: lambda count: claim_and_complete(ledger, count)
        }
        for name in (BARE, EVENTS):
            bare = await open_bare(place, await place.fresh(), chunks, events=name == EVENTS)
            stack.push_async_callback(bare.close)
            steps[name] = bare.claim_and_complete
        rates: dict[str, list[float]] = {name: [] for name in steps}
        for turn in range(ROUNDS):
            order = sorted(steps, reverse=bool(turn % 2))
            for name in order:
                rates[name].append(await _rate(steps[name], k, batches))
        return rates


async def _rate(step: Callable[[int], Awaitable[int]], k: int, batches: int) -> float:
    for _ in range(WARM_UP):
        await step(k)
    started = time.perf_counter()
    done = sum([await step(k) for _ in range(batches)])
    taken = time.perf_counter() - started
    assert done == k * batches
    return done / taken
