"""A fetch with a short lease, as a process that can be stopped and woken.

python -m tests.acceptance.fetch_process URL HEIGHTS TARGET LEDGER
"""

from __future__ import annotations

import asyncio
import sys
from dataclasses import replace

from gapless.blocks.request import FetchOptions, wish_for
from gapless.blocks.session import open_fetch, start
from gapless.config import Config
from gapless.ledger.records import BackfillRequest

LEASE = 1.0


async def main(url: str, heights: str, target: str, ledger: str) -> int:
    options = FetchOptions(chunk_size=60, batch_size=20, max_concurrent=2)
    wish, places = wish_for(Config(), "custom", heights, [url], target, options)
    async with open_fetch(wish, places.config, ledger) as fetching:
        if not fetching.missing:
            return 0
        with fetching.plane() as plane:
            engine, wanted = await fetching.engine()
            if isinstance(wanted, BackfillRequest):
                wanted = replace(wanted, lease_seconds=LEASE)
            async with engine:
                ended = await (await start(engine, plane, wanted)).wait()
            print(ended.state, flush=True)
            return len((await fetching.result(plane.counts, ended)).gaps)


if __name__ == "__main__":
    sys.exit(asyncio.run(main(*sys.argv[1:])))
