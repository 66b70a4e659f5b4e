"""Creating a backfill over ten million partitions: fast, small, and with constant memory.

python -m bench.creation URL       creates one in this process, and prints JSON
"""

from __future__ import annotations

import asyncio
import resource
import sys
import time
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator

import msgspec

from bench.places import Place
from bench.report import Row, at_most
from bench.work import JOB
from gapless.core.events import Codec
from gapless.core.partitions import block_heights
from gapless.core.selector import Range, resolve, summary
from gapless.ledger import open_ledger
from gapless.ledger.records import BackfillRequest

PARTITIONS = 10_000_000
CHUNK_SIZE = 10


class Created(msgspec.Struct):
    seconds: float
    event_bytes: int
    grown_kib: int


async def measure(place: Place) -> AsyncIterator[Row]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "bench.creation", await place.fresh(), stdout=PIPE
    )
    said, _ = await process.communicate()
    made = msgspec.json.decode(said, type=Created)
    label = f"create over {PARTITIONS:,} partitions"
    yield Row(f"{label}, seconds, {place.name}", "", made.seconds, at_most(1))
    yield Row(f"{label}, bytes of its event, {place.name}", "", made.event_bytes, at_most(1023))
    grown = made.grown_kib / 1024
    yield Row(f"{label}, MiB of memory, {place.name}", "", grown, at_most(4))


async def create(url: str) -> Created:
    ledger = await open_ledger(url)
    await ledger.backfills()  # everything that is loaded once is loaded now
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    started = time.perf_counter()
    selector = Range("0", str(PARTITIONS - 1))
    selection = resolve(selector, block_heights())
    request = BackfillRequest(
        id="big",
        job=JOB[0],
        job_version=JOB[1],
        selector=summary(selector),
        selection=selection,
        chunk_size=CHUNK_SIZE,
    )
    backfill = await ledger.create(request)
    taken = time.perf_counter() - started
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert backfill.partitions == PARTITIONS
    ((event, _),) = await ledger.events("big")
    await ledger.close()
    return Created(taken, len(Codec.payload(event).encode()), grown)


if __name__ == "__main__":
    print(msgspec.json.encode(asyncio.run(create(sys.argv[1]))).decode())
