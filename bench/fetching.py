"""A fetch from a node to disk, compared with writing the same prepared rows in that format.

A fetch that comes near the null client's rate measures the node: its row is then void.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path

from bench import null_client, raw
from bench.node_process import node
from bench.rendered import LARGE, SMALL, Workload
from bench.report import Row, at_least, median, median_ratio, per_second
from bench.runs import Room, room
from gapless.blocks.result import FetchResult
from gapless.chains.opening import open_sink

ROUNDS = 3
TOO_NEAR = 0.7  # of the ceiling
LEAST = at_least(0.35)  # of the raw limit
LEAST_OF = {(LARGE, "SQLite"): at_least(0.45)}
BATCH = {SMALL: 100, LARGE: 10}  # blocks per request, about as a fetch learns them


async def measure() -> AsyncIterator[Row]:
    for workload in (SMALL, LARGE):
        async with node(workload) as running:
            heights = range(1, workload.blocks + 1)
            ceiling = await null_client.ceiling(
                running.url, heights, batch=BATCH[workload], connections=8
            )
            yield Row(f"node, {workload.name}: a client that does nothing", _blocks(ceiling))
            for kind, suffix in (("SQLite", ".db"), ("Parquet", "/")):
                with room() as place:
                    row, rate = await _against_raw(place, running.url, workload, suffix)
                void = rate > TOO_NEAR * ceiling
                name = f"fetch to {kind}, {workload.name}, of its raw limit"
                name = f"{name}: VOID, measures the node" if void else name
                yield replace(row, name=name, bound=LEAST_OF.get((workload, kind), LEAST))
        yield running.row(workload)


async def _against_raw(place: Room, url: str, workload: Workload, suffix: str) -> tuple[Row, float]:
    """A row without name and bound, and blocks per second; a first fetch provides the rows."""
    target = f"{place.path('')}{suffix}"
    first = await place.fetch(url, workload.blocks, target)
    write = await _ready(target, first)
    taken: dict[str, list[float]] = {"fetch": [], "raw": []}
    for turn in range(ROUNDS):
        for way in sorted(taken, reverse=bool(turn % 2)):
            path = place.path("")
            if way == "raw":
                taken[way].append(write(path))
            else:
                found = await place.fetch(url, workload.blocks, f"{path}{suffix}")
                taken[way].append(found.seconds)
    rows = sum(first.rows.values())
    rate, limit = (rows / median(taken[way]) for way in ("fetch", "raw"))
    figure = f"{per_second(rate)} of {per_second(limit)} rows"
    ratio = median_ratio(taken["raw"], taken["fetch"])
    return Row("", figure, ratio), workload.blocks / median(taken["fetch"])


async def _ready(target: str, found: FetchResult) -> Callable[[Path], float]:
    """What writes the fetched rows again and returns how long it took."""
    if not target.endswith("/"):
        transactions = raw.stored_rows(Path(target), found.span.last)
        return lambda path: raw.insert(path, transactions)
    async with await open_sink(target) as sink:
        cells = await raw.stored_cells(sink, found.spec.chain_id, found.span.last)
    return lambda path: raw.write(path, cells)


def _blocks(rate: float) -> str:
    return f"{per_second(rate)} blocks"
