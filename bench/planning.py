"""Planning a million chunks, compared with a bare bulk insert of the same rows.

In slices, taken in turns: by Gapless in one transaction each, with its events; a bare insert of the
chunks alone; and one of chunks and events. Then a part by Gapless in batches of 256, as claims do
it.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack

from bench.places import Place
from bench.report import Row, median, median_ratio, per_second
from bench.work import create, plan
from gapless.ledger import open_ledger
from gapless.ledger.claims import PLAN_AHEAD

CHUNKS = 1_000_000
SLICES = 5
PART = 40 * PLAN_AHEAD
OURS, BARE, EVENTS = "gapless", "bare", "bare + events"

INSERT = {
    "sqlite": """
INSERT INTO chunks (backfill_id, chunk_index, rank, first, last, status, planned_at)
WITH RECURSIVE i(n) AS (SELECT {low} UNION ALL SELECT n + 1 FROM i WHERE n < {high})
SELECT 'bf', n, n, n * 100, n * 100 + 99, 'PENDING', unixepoch('subsec') FROM i
""",
    "postgres": """
INSERT INTO chunks (backfill_id, chunk_index, rank, first, last, status, planned_at)
SELECT 'bf', n, n, n * 100, n * 100 + 99, 'PENDING', extract(epoch FROM statement_timestamp())
FROM generate_series({low}, {high}) AS n
""",
}
INSERT_EVENTS = {
    "sqlite": """
INSERT INTO events (idempotency_key, backfill_id, type, payload, actor, at)
WITH RECURSIVE i(n) AS (SELECT {low} UNION ALL SELECT n + 1 FROM i WHERE n < {high})
SELECT 'backfill_chunk:bf:' || n, 'bf', 'BackfillChunkPlanned',
       '{{"chunk_index":' || n || ',"first":' || (n * 100) || ',"last":' || (n * 100 + 99) || '}}',
       'bare', unixepoch('subsec')
FROM i
""",
    "postgres": """
INSERT INTO events (idempotency_key, backfill_id, type, payload, actor, at)
SELECT 'backfill_chunk:bf:' || n, 'bf', 'BackfillChunkPlanned',
       '{{"chunk_index":' || n || ',"first":' || (n * 100) || ',"last":' || (n * 100 + 99) || '}}',
       'bare', extract(epoch FROM statement_timestamp())
FROM generate_series({low}, {high}) AS n
""",
}


async def measure(place: Place) -> AsyncIterator[Row]:
    async with AsyncExitStack() as stack:
        ledger = await open_ledger(await place.fresh())
        stack.push_async_callback(ledger.close)
        await create(ledger, "bf", CHUNKS + PART)
        bare, telling = await place.fresh(), await place.fresh()
        size = CHUNKS // SLICES

        async def insert(url: str, texts: tuple[str, ...], nth: int) -> None:
            text = ";".join(texts).format(low=nth * size, high=nth * size + size - 1)
            await place.script(url, text)

        insert_chunks, insert_events = INSERT[place.name], INSERT_EVENTS[place.name]
        steps: dict[str, Callable[[int], Awaitable[object]]] = {
            OURS: lambda _: plan(ledger, "bf", size),
            BARE: lambda nth: insert(bare, (insert_chunks,), nth),
            EVENTS: lambda nth: insert(telling, (insert_chunks, insert_events), nth),
        }
        rates: dict[str, list[float]] = {name: [] for name in steps}
        for nth in range(SLICES):
            for name in sorted(steps, reverse=bool(nth % 2)):
                rates[name].append(await _rate(steps[name], nth, size))
        label = f"planning a million chunks, {place.name}"
        for name in (BARE, EVENTS, OURS):
            seconds = sum(size / rate for rate in rates[name])
            yield Row(f"{label}: {name}", f"{seconds:.1f} s, {per_second(median(rates[name]))}")
        yield Row(f"{label}: of bare", "", median_ratio(rates[OURS], rates[BARE]))
        yield Row(f"{label}: of bare + events", "", median_ratio(rates[OURS], rates[EVENTS]))

        started = time.perf_counter()
        planned = sum([await plan(ledger, "bf", PLAN_AHEAD) for _ in range(PART // PLAN_AHEAD)])
        rate = planned / (time.perf_counter() - started)
        yield Row(
            f"{label}: gapless, in batches of {PLAN_AHEAD}",
            f"~{CHUNKS / rate:.0f} s, {per_second(rate)}",
        )
        yield Row(
            f"{label}: batches of {PLAN_AHEAD}, of bare + events",
            "",
            rate / median(rates[EVENTS]),
        )


async def _rate(step: Callable[[int], Awaitable[object]], nth: int, size: int) -> float:
    started = time.perf_counter()
    await step(nth)
    return size / (time.perf_counter() - started)
