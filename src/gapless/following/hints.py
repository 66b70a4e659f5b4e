"""Notices of new blocks over a WebSocket, so that a follower looks before its next poll.

A notice is a hint and nothing else: what it says about a block is not read. So a subscription that
is lost, silent or wrong costs time, and never a block.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import aclosing
from itertools import cycle

from gapless.providers import Pool, TransportFailure
from gapless.providers.limits import delay
from gapless.telemetry import log

_SILENCE = 5  # block times without a notice before it subscribes again, and at least:
_SILENCE_AT_LEAST = 30.0  # seconds
_FIRST_WAIT, _LONGEST_WAIT = 1.0, 60.0  # seconds before it subscribes again


class HeadHints:
    """Sets an event whenever an endpoint announces a new block, between `start` and `stop`."""

    def __init__(self, hint: asyncio.Event, follow: str, block_time: float) -> None:
        self._hint, self._follow = hint, follow
        self._silence = max(_SILENCE_AT_LEAST, _SILENCE * block_time)
        self._task: asyncio.Task[None] | None = None

    def start(self, pool: Pool) -> None:
        """Subscribes to one endpoint that has a WebSocket, and to the next one if it fails."""
        if self._task is None and pool.announcing:
            self._task = asyncio.create_task(self._listen(pool), name=f"hints-{self._follow}")

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    async def _listen(self, pool: Pool) -> None:
        failures = 0
        for endpoint in cycle(sorted(pool.announcing)):
            try:
                async with aclosing(pool.heads(endpoint, silence=self._silence)) as notices:
                    async for _ in notices:
                        failures = 0
                        self._hint.set()
            except TransportFailure as error:
                failures += 1
                level = logging.WARNING if failures == 1 else logging.DEBUG
                told = {"follow": self._follow, "endpoint": endpoint, "error": error}
                log(level, "subscription_lost", **told)
            await asyncio.sleep(delay(failures, pool.system.chance(), _FIRST_WAIT, _LONGEST_WAIT))
