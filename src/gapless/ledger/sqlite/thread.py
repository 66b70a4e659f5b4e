"""A thread that runs functions for an event loop, one after the other.

The executors of the standard library do the same in twice the time, and the way to the thread and
back is a good part of what a small transaction takes.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from functools import partial
from queue import SimpleQueue
from typing import TypeVar

T = TypeVar("T")


class Thread:
    def __init__(self, name: str) -> None:
        self._wishes: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    async def run(self, function: Callable[[], T]) -> T:
        """Runs a function there, to its end even if we are cancelled meanwhile."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[T] = loop.create_future()

        def wish() -> None:
            try:
                answer = partial(done.set_result, function())
            except BaseException as error:  # noqa: BLE001 - it goes to whoever waits
                answer = partial(done.set_exception, error)
            with contextlib.suppress(RuntimeError):  # nobody waits any more: the loop is closed
                loop.call_soon_threadsafe(answer)

        self._wishes.put(wish)
        try:
            return await asyncio.shield(done)
        except asyncio.CancelledError:
            await asyncio.wait([done])
            raise

    def end(self) -> None:
        """Ends the thread, after all that it was asked to run."""
        self._wishes.put(None)
        self._thread.join()

    def _work(self) -> None:
        while (wish := self._wishes.get()) is not None:
            wish()
