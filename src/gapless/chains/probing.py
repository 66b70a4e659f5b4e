"""Measurements that probes of all families make in the same way."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from gapless.chains.family import Source
from gapless.chains.findings import Rate
from gapless.core.errors import SourceError
from gapless.core.ranges import Span
from gapless.providers import Pool, Timeouts

PATIENCE = 2.0
TIMEOUTS = Timeouts(connect=5, read=10)
WORKERS = 8
_RATE_SECONDS, _RATE_CALLS, _RATE_BLOCKS = 2.0, 400, 5


async def find_earliest(head: int, is_there: Callable[[int], Awaitable[bool]]) -> int:
    """Find the first block that exists with all its parts, by binary search."""
    absent, present = 0, head  # the genesis may lack parts even if nothing was pruned
    if head <= 1 or await is_there(1):
        return 0
    while present - absent > 1:
        middle = (absent + present) // 2
        if await is_there(middle):
            present = middle
        else:
            absent = middle
    return present


async def measure_rate(pool: Pool, source: Source, head: int, earliest: int) -> Rate | None:
    """Fetch blocks for a short time, as fast as a fetch would, and measure the rate."""
    before, again, start = pool.calls.total(), pool.retries, pool.system.clock()
    spans = iter(
        Span(first, first + _RATE_BLOCKS - 1)
        for first in range(max(earliest, head - 10_000), head - _RATE_BLOCKS, _RATE_BLOCKS)
    )
    blocks = 0

    async def fetch_spans() -> None:
        nonlocal blocks
        for span in spans:
            fetched = await source.fetch(span)
            blocks += len(fetched)
            spent = pool.calls.total() - before
            if spent >= _RATE_CALLS or pool.system.clock() - start >= _RATE_SECONDS:
                return

    try:
        await asyncio.gather(*(fetch_spans() for _ in range(WORKERS)))
    except SourceError:
        return None
    seconds = pool.system.clock() - start
    answered = pool.calls.total() - before - (pool.retries - again)
    (profile,) = pool.profiles().values()
    return Rate(
        calls_per_second=round(answered / seconds, 1),
        blocks_per_second=round(blocks / seconds, 1),
        limited=profile.concurrency is not None or profile.rate is not None,
    )
