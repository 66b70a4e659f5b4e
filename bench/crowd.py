"""A process of workers that claim and complete as fast as they can; `concurrency` starts them.

    python -m bench.crowd URL WORKERS K SECONDS

It prints `ready` when all its ledgers are open, starts when told to, and prints the chunks that it
completed as JSON, by backfill.
"""

from __future__ import annotations

import asyncio
import sys
import time

import msgspec

from bench.work import claim
from gapless.ledger import Ledger, open_ledger


class Done(msgspec.Struct):
    """What one process did: for each worker, the names of its chunks."""

    chunks: list[list[str]]
    seconds: float


async def work(ledger: Ledger, k: int, seconds: float) -> list[str]:
    done: list[str] = []
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        claims = await claim(ledger, k)
        lost = await ledger.complete(claims)
        assert not lost
        done += [each.chunk_id for each in claims]
    return done


async def main(url: str, workers: int, k: int, seconds: float) -> None:
    ledgers = [await open_ledger(url) for _ in range(workers)]
    print("ready", flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    started = time.monotonic()
    chunks = await asyncio.gather(*(work(ledger, k, seconds) for ledger in ledgers))
    done = Done(list(chunks), time.monotonic() - started)
    print(msgspec.json.encode(done).decode(), flush=True)
    for ledger in ledgers:
        await ledger.close()


if __name__ == "__main__":
    place, count, batch, duration = sys.argv[1:]
    asyncio.run(main(place, int(count), int(batch), float(duration)))
