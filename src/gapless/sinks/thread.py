"""The one thread on which a sink does its work.

Files and connections are used from one thread only, and the event loop goes on meanwhile. What has
begun is brought to its end even if whoever waits is cancelled: a sink is never left in the middle.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class OwnThread:
    def __init__(self, name: str) -> None:
        self._executor = ThreadPoolExecutor(1, name)

    async def run(self, function: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
        """Runs a function there, behind all that were asked for before."""
        future = asyncio.wrap_future(self._executor.submit(function, *arguments, **named))
        try:
            return await asyncio.shield(future)
        except asyncio.CancelledError:
            await asyncio.wait([future])
            raise

    def end(self) -> None:
        """Ends the thread, after all that it was asked to run."""
        self._executor.shutdown()
