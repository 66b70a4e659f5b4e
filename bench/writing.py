"""A sink alone: prepared rows, written through it, compared with the raw format.

It shows what a sink adds: fences, seams, records, digests, and for Parquet also compression.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

from bench import raw
from bench.rendered import LARGE, SMALL, Workload
from bench.report import Row, at_least, median, median_ratio, per_second
from bench.runs import room
from gapless.chains.evm.decode.structs import parse_block, parse_receipts
from gapless.chains.evm.decode.tables import decode_blocks
from gapless.chains.opening import open_sink
from gapless.core.ranges import Span
from gapless.devnode import simulated
from gapless.sinks import Batch
from gapless.sinks.parquet.manifest import CELL

ROUNDS = 3
SINKS = {
    "SQLite": (".db", raw.BATCH, None),
    "DuckDB": (".duckdb", CELL, at_least(0.7)),
    "Parquet": ("/", CELL, at_least(0.35)),
}


async def measure() -> AsyncIterator[Row]:
    for workload in (SMALL, LARGE):
        for kind, (suffix, size, bound) in SINKS.items():
            batches = batches_of(workload, size)
            taken: dict[str, list[float]] = {"sink": [], "raw": []}
            with room() as place:
                target = f"{place.path('')}{suffix}"
                await _written(target, batches)
                write = await _raw(target, batches)
                for turn in range(ROUNDS):
                    for way in sorted(taken, reverse=bool(turn % 2)):
                        path = place.path("")
                        seconds = (
                            write(path)
                            if way == "raw"
                            else await _written(f"{path}{suffix}", batches)
                        )
                        taken[way].append(seconds)
            rows = sum(len(table) for batch in batches for table in batch.tables.values())
            rate, limit = (rows / median(taken[way]) for way in ("sink", "raw"))
            yield Row(
                f"{kind} sink alone, {workload.name}, of its raw limit",
                f"{per_second(rate)} of {per_second(limit)} rows",
                median_ratio(taken["raw"], taken["sink"]),
                bound,
            )


def batches_of(workload: Workload, size: int) -> list[Batch]:
    """Blocks 1 to the last of the workload; no batch crosses a multiple of the size."""
    chain = simulated(workload.parameters)
    batches = []
    for start in range(0, workload.blocks + 1, size):
        span = Span(max(1, start), min(workload.blocks, start + size - 1))
        heights = range(span.first, span.last + 1)
        blocks = [parse_block(chain.block(height)) for height in heights]
        receipts = [parse_receipts(chain.receipts(height)) for height in heights]
        tables = decode_blocks(blocks, receipts, chain.chain_id)
        batches.append(Batch(chain.chain_id, span, tables))
    return batches


async def _written(target: str, batches: list[Batch]) -> float:
    """Seconds that a new sink takes for them."""
    async with await open_sink(target) as sink:
        began = time.perf_counter()
        for batch in batches:
            await sink.write(batch, 1)
        return time.perf_counter() - began


async def _raw(target: str, batches: list[Batch]) -> Callable[[Path], float]:
    tables = [batch.tables for batch in batches]
    if target.endswith("/"):
        return lambda path: raw.write(path, tables)
    if target.endswith(".duckdb"):
        return lambda path: raw.append(path, tables)
    transactions = raw.stored_rows(Path(target), batches[-1].span.last)
    return lambda path: raw.insert(path, transactions)
