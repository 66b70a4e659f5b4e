"""One worker, eight, and sixty-four, each with its own ledger and connection.

All of them work on one backfill, the hardest case: every claim takes its lock. A worker's share is
compared with what one worker does alone, and no chunk may be claimed twice.
"""

from __future__ import annotations

import asyncio
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from dataclasses import dataclass

import msgspec

from bench.crowd import Done
from bench.places import Place
from bench.report import Row, at_most, per_second
from bench.work import create
from gapless.ledger import open_ledger

SECONDS = 1.5
CHUNKS = 10_000_000
PROCESSES = {1: 1, 8: 2, 64: 2}  # asyncio runs many workers; two cores run two processes


@dataclass(frozen=True)
class Outcome:
    rate: float
    twice: int
    slowest: int
    fastest: int


async def measure(place: Place) -> AsyncIterator[Row]:
    for k in (1, 10):
        alone = 0.0
        for workers, processes in PROCESSES.items():
            outcome = await _run(place, workers, processes, k)
            alone = alone or outcome.rate
            label = f"{workers} worker{'s' * (workers > 1)}, k = {k}, {place.name}"
            share = f", {outcome.slowest}-{outcome.fastest} each" if workers > 1 else ""
            yield Row(label, per_second(outcome.rate) + share, outcome.rate / alone)
            yield Row(f"{label}: claimed twice", "", outcome.twice, at_most(0))


async def _run(place: Place, workers: int, processes: int, k: int) -> Outcome:
    url = await place.fresh()
    ledger = await open_ledger(url)
    await create(ledger, "bf", CHUNKS, runs=10 * k * workers)
    crowd = [await _start(url, workers // processes, k) for _ in range(processes)]
    for process in crowd:
        assert process.stdin is not None
        process.stdin.write(b"go\n")
    said = [(await process.communicate())[0] for process in crowd]
    done = [msgspec.json.decode(each, type=Done) for each in said]
    shares = [chunks for each in done for chunks in each.chunks]
    names = [name for share in shares for name in share]
    complete = (await ledger.backfill("bf")).chunks.complete
    assert complete == len(set(names)), "a completion was lost"
    await ledger.close()
    return Outcome(
        rate=sum(sum(map(len, each.chunks)) / each.seconds for each in done),
        twice=len(names) - len(set(names)),
        slowest=min(map(len, shares)),
        fastest=max(map(len, shares)),
    )


async def _start(url: str, workers: int, k: int) -> Process:
    arguments = ("-m", "bench.crowd", url, str(workers), str(k), str(SECONDS))
    process = await asyncio.create_subprocess_exec(
        sys.executable, *arguments, stdin=PIPE, stdout=PIPE, limit=2**28
    )
    assert process.stdout is not None
    assert await process.stdout.readline() == b"ready\n"
    return process
