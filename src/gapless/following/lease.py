"""Keeps the lease of a leader while it takes a turn.

A turn asks endpoints, and several that are dead can take longer than the lease lasts. So the lease
is renewed beside the turn, and another process does not take over only because endpoints are slow.
A turn that hangs for good must not keep the lead for ever: then the lease is left to end.

A leader may still lose its lease, because its process was suspended or the ledger unreachable. What
it writes then is refused, since it names the fence of the leader.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

from gapless.core.errors import LedgerError

_RENEWALS = 3  # for as long as a lease lasts
_LONGEST_TURN = 600.0  # seconds


@asynccontextmanager
async def lease_kept(
    renew: Callable[[], Awaitable[bool]], lease_seconds: float
) -> AsyncIterator[None]:
    """Renews a lease until the block ends; `renew` returns whether it is still held."""
    renewing = asyncio.create_task(_renew(renew, lease_seconds / _RENEWALS))
    try:
        yield
    finally:
        renewing.cancel()
        await asyncio.gather(renewing, return_exceptions=True)


async def _renew(renew: Callable[[], Awaitable[bool]], every: float) -> None:
    held, left = True, _LONGEST_TURN
    while held and left > 0:
        await asyncio.sleep(every)
        left -= every
        with suppress(LedgerError):  # the next attempt may come in time
            held = await renew()
