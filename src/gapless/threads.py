"""A thread that runs functions for an event loop, one after the other.

Files and connections are used from one thread only, and the event loop goes on meanwhile. What has
begun is brought to its end however often whoever waits is cancelled: nobody sees the middle of it.

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
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class SerialThread:
    def __init__(self, name: str) -> None:
        self._wishes: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    async def run(self, function: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
        """Runs a function there, behind all that were asked for before, to its end."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[T] = loop.create_future()

        def wish() -> None:
            try:
                answer = partial(done.set_result, function(*arguments, **named))
            except BaseException as error:  # noqa: BLE001 - it goes to whoever waits
                answer = partial(done.set_exception, error)
            with contextlib.suppress(RuntimeError):  # nobody waits any more: the loop is closed
                loop.call_soon_threadsafe(answer)

        self._wishes.put(wish)
        try:
            return await asyncio.shield(done)
        except asyncio.CancelledError:
            while not done.done():
                with contextlib.suppress(asyncio.CancelledError):  # told once already
                    await asyncio.wait([done])
            raise

    def end(self) -> None:
        """Ends the thread, after all that it was asked to run."""
        self._wishes.put(None)
        self._thread.join()

    def _work(self) -> None:
        while (wish := self._wishes.get()) is not None:
            wish()
