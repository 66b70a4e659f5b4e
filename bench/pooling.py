"""What prepared statements save on PostgreSQL, and so what a pooling proxy without them costs."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator

from bench.places import Place
from bench.report import Row, median, median_ratio, per_second
from bench.work import claim_and_complete, create
from gapless.ledger import open_ledger

ROUNDS = 5
BATCHES = {1: 30, 10: 30, 100: 10}


async def measure(place: Place) -> AsyncIterator[Row]:
    if place.name != "postgres":
        return
    for k, batches in BATCHES.items():
        rates: dict[str, list[float]] = {"on": [], "off": []}
        ledgers = {}
        for option in rates:
            ledgers[option] = await open_ledger(
                f"{await place.fresh()}?prepared_statements={option}"
            )
            await create(ledgers[option], "bf", 1_000_000)
        for turn in range(ROUNDS):
            for option in sorted(rates, reverse=bool(turn % 2)):
                await claim_and_complete(ledgers[option], k)
                started = time.perf_counter()
                for _ in range(batches):
                    await claim_and_complete(ledgers[option], k)
                rates[option].append(k * batches / (time.perf_counter() - started))
        for ledger in ledgers.values():
            await ledger.close()
        off, on = median(rates["off"]), median(rates["on"])
        yield Row(
            f"prepared statements, k = {k}, {place.name}: on relative to off",
            f"{per_second(on)} of {per_second(off)}",
            median_ratio(rates["on"], rates["off"]),
        )
