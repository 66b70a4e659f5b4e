"""Stop a run without wasting calls: store the answers that were paid for.

A provider bills every call that is sent. When a run is asked to stop, it sends no new requests,
gives those in flight a few more seconds, and stores the blocks that arrived in order. An endpoint
that hangs or fails delays the stop by those seconds at most.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from gapless.core.errors import StopRequested

T = TypeVar("T")

GRACE = 3.0
"""Seconds that requests in flight get once a stop is requested."""


class StopSignal:
    """Tells a run to stop, and limits how long its requests in flight may still take."""

    def __init__(self, request: asyncio.Future[None], grace: float = GRACE) -> None:
        """The stop is requested as soon as `request` is done."""
        self._request = request
        self._grace = grace
        self._until: float | None = None

    @property
    def requested(self) -> bool:
        return self._request.done()

    def check(self) -> None:
        """Raise `StopRequested` if a stop is requested."""
        if self.requested:
            raise StopRequested("the run was asked to stop")

    async def arrival(self, task: asyncio.Future[Any]) -> bool:
        """Wait for a task, but not beyond the grace period; return whether it is done."""
        if not task.done():
            await asyncio.wait([task, self._request], return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            await asyncio.wait([task], timeout=self._left())
        return task.done()

    async def limit(self, request: Coroutine[Any, Any, T]) -> T:
        """Await a request; raise `StopRequested` if it outlasts the grace period."""
        task = asyncio.ensure_future(request)
        try:
            if not await self.arrival(task):
                self.check()
            return task.result()
        finally:
            task.cancel()
            await asyncio.wait([task])

    def _left(self) -> float:
        now = asyncio.get_running_loop().time()
        if self._until is None:
            self._until = now + self._grace
        return max(0.0, self._until - now)


@contextmanager
def stop_on(requested: Callable[[], Coroutine[Any, Any, None]]) -> Iterator[StopSignal]:
    """Yield a `StopSignal` that is requested once this coroutine returns."""
    request = asyncio.create_task(requested(), name="gapless-stop")
    try:
        yield StopSignal(request)
    finally:
        request.cancel()
