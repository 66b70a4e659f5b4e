"""The share of its time that a slot waits between one chunk and the next.

The job only sleeps, so everything else that a slot does is the engine's work: writing an outcome,
claiming, starting. Every chunk reports how long it really slept, so a sleep that lasts too long
does not count as idle time.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator

import gapless
from bench.places import Place
from bench.report import Row, median

ROUNDS = 3
SLOTS = 4
CHUNKS = {0.01: 400, 0.1: 80}


async def measure(place: Place) -> AsyncIterator[Row]:
    for seconds, chunks in CHUNKS.items():
        shares = [await _idle_share(await place.fresh(), seconds, chunks) for _ in range(ROUNDS)]
        name = f"idle share of {SLOTS} slots, chunks of {seconds * 1000:.0f} ms, {place.name}"
        yield Row(name, f"{median(shares):.1%}", median(shares))


async def _idle_share(url: str, seconds: float, chunks: int) -> float:
    busy = 0.0

    @gapless.job(partitions=gapless.block_heights(), chunk_size=1)
    async def sleep(chunk: gapless.Chunk, context: gapless.Context) -> None:
        nonlocal busy
        began = time.perf_counter()
        await asyncio.sleep(seconds)
        busy += time.perf_counter() - began

    async with gapless.Engine(url, slots=SLOTS) as engine:
        began = time.perf_counter()
        selector = gapless.Range("0", f"+{chunks}")
        backfill = await engine.backfill(sleep, selector, max_concurrent_runs=SLOTS)
        ended = await backfill.wait()
        taken = time.perf_counter() - began
    assert ended.chunks.complete == chunks
    return 1 - busy / (SLOTS * taken)
