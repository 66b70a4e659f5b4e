"""A stop that wastes nothing: what was paid for is stored before the run ends.

A provider bills every call that was sent. So once somebody asks a run to stop, it asks for nothing
new, gives the requests in flight a few more seconds, and stores whatever has arrived in order. An
endpoint that hangs or fails costs those seconds and no more.
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


class Stop:
    """Whether a run is to stop, and how long what it has begun may still take."""

    def __init__(self, request: asyncio.Future[None], grace: float = GRACE) -> None:
        """The stop is requested as soon as `request` is done."""
        self._request = request
        self._grace = grace
        self._until: float | None = None

    @property
    def requested(self) -> bool:
        return self._request.done()

    def check(self) -> None:
        """Raises if the run is to stop."""
        if self.requested:
            raise StopRequested("the run was asked to stop")

    async def arrival(self, task: asyncio.Future[Any]) -> bool:
        """Waits for a task, but not beyond the grace; returns whether it is done."""
        if not task.done():
            await asyncio.wait([task, self._request], return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            await asyncio.wait([task], timeout=self._left())
        return task.done()

    async def limit(self, asking: Coroutine[Any, Any, T]) -> T:
        """The answer to something that is asked; raises if that outlasts the grace."""
        task = asyncio.ensure_future(asking)
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
def stop_on(requested: Callable[[], Coroutine[Any, Any, None]]) -> Iterator[Stop]:
    """A stop that is requested once this coroutine returns."""
    request = asyncio.create_task(requested(), name="gapless-stop")
    try:
        yield Stop(request)
    finally:
        request.cancel()
