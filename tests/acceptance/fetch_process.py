"""A fetch with a short lease, as a process that can be stopped and woken.

python -m tests.acceptance.fetch_process NETWORK URL HEIGHTS TARGET LEDGER
"""

from __future__ import annotations

import asyncio
import sys
from dataclasses import replace

from gapless.blocks.request import FetchOptions, build_request
from gapless.blocks.running import SilentObserver, run_fetch
from gapless.blocks.session import open_fetch
from gapless.config import Config

LEASE = 1.0


async def main(network: str, url: str, heights: str, target: str, ledger: str) -> int:
    options = FetchOptions(chunk_size=60, batch_size=20, max_concurrent=2)
    request, targets = build_request(Config(), network, heights, [url], target, options)
    request = replace(request, lease_seconds=LEASE)
    async with open_fetch(request, targets.config, ledger) as session:
        if not session.missing:
            return 0
        result = await run_fetch(session, SilentObserver())
    print(result.state, flush=True)
    return len(result.gaps)


if __name__ == "__main__":
    sys.exit(asyncio.run(main(*sys.argv[1:])))
