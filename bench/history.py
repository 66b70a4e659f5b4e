"""What a million finished chunks in the ledger cost later work: nothing.

Two ledgers, one with a thousand finished chunks and one with a million. Claiming and completing is
measured in turns, in the backfill that the chunks belong to and in another one; then the views.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack

from bench.places import Place
from bench.report import Row, at_most, median, median_ratio
from bench.work import claim_and_complete, create
from gapless.ledger import Ledger, open_ledger

FEW, MANY = 1_000, 1_000_000
SAME, OTHER = "the same backfill", "another backfill"
K = 10
ROUNDS = 15
BATCHES = 26  # one of them plans
VIEW_MS = 100.0

SERIES = {
    "sqlite": "WITH RECURSIVE i(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM i WHERE n < {n} - 1)",
    "postgres": "WITH i(n) AS (SELECT generate_series(0, {n} - 1))",
}
FINISHED = """
INSERT INTO chunks (backfill_id, chunk_index, rank, first, last, status, fence, claim_id, owner,
                    last_processed, planned_at, started_at, ended_at)
{series} SELECT 'old', n, n, n * 100, n * 100 + 99, 'COMPLETE', n + 1,
                '0123456789abcdef0123456789abcdef', 'bench', n * 100 + 99, 1.0, 2.0, 3.0 FROM i;
INSERT INTO events (idempotency_key, backfill_id, type, payload, actor, at)
{series} SELECT 'backfill_chunk:old:' || n, 'old', 'BackfillChunkPlanned',
                '{{"chunk_index":' || n || ',"first":' || (n * 100)
                || ',"last":' || (n * 100 + 99) || '}}', 'bench', 1.0 FROM i;
INSERT INTO events (idempotency_key, backfill_id, type, payload, actor, at)
{series} SELECT 'chunk_ended:old:' || n, 'old', 'ChunkEnded',
                '{{"chunk_index":' || n || ',"status":"COMPLETE"}}', 'bench', 3.0 FROM i;
INSERT INTO counts (backfill_id, shard, complete) VALUES ('old', 99, {n});
UPDATE backfills SET planned = {n} WHERE id = 'old'
"""
FENCE = {
    "sqlite": "UPDATE fence SET value = {n} + 1",
    "postgres": "SELECT setval('gapless.fence', {n} + 1)",
}


async def measure(place: Place) -> AsyncIterator[Row]:
    async with AsyncExitStack() as stack:
        ledgers: dict[int, Ledger] = {}
        for finished in (FEW, MANY):
            ledgers[finished] = await _with_history(place, finished)
            stack.push_async_callback(ledgers[finished].close)
        for queue, name in (("old", SAME), ("new", OTHER)):
            costs: dict[int, list[float]] = {FEW: [], MANY: []}
            for turn in range(ROUNDS):
                for finished in (FEW, MANY)[:: -1 if turn % 2 else 1]:
                    costs[finished].append(await _cost(ledgers[finished], queue))
            label = f"a chunk next to a million in {name}, {place.name}"
            few, many = median(costs[FEW]), median(costs[MANY])
            yield Row(
                label,
                f"{many * 1e6:.0f} us, next to 1000: {few * 1e6:.0f} us",
                median_ratio(costs[MANY], costs[FEW]),
                at_most(1.2),
            )
        assert await ledgers[FEW].check() == [], "the generated history is invalid"
        for view, ms in {
            "backfill()": await _milliseconds(lambda: ledgers[MANY].backfill("old")),
            "backfills()": await _milliseconds(ledgers[MANY].backfills),
        }.items():
            yield Row(
                f"{view} next to a million chunks, ms, {place.name}", "", ms, at_most(VIEW_MS)
            )


async def _with_history(place: Place, finished: int) -> Ledger:
    """A ledger with this many finished chunks in the backfill `old`, in its own queue."""
    url = await place.fresh()
    ledger = await open_ledger(url)
    for name in ("old", "new"):
        await create(ledger, name, 10 * MANY, queue=name)
    series = SERIES[place.name].format(n=finished)
    await place.script(url, FINISHED.format(n=finished, series=series))
    await place.script(url, FENCE[place.name].format(n=finished))
    return ledger


async def _cost(ledger: Ledger, queue: str) -> float:
    await claim_and_complete(ledger, K, queue=queue)
    started = time.perf_counter()
    done = sum([await claim_and_complete(ledger, K, queue=queue) for _ in range(BATCHES)])
    assert done == K * BATCHES
    return (time.perf_counter() - started) / done


async def _milliseconds(view: Callable[[], Awaitable[object]]) -> float:
    taken = []
    for _ in range(ROUNDS):
        started = time.perf_counter()
        await view()
        taken.append(1000 * (time.perf_counter() - started))
    return median(taken)
