"""A thread that runs functions for an event loop, one after the other.

Files and connections are used from one thread only, and the event loop stays free meanwhile. A
function that has begun runs to its end, however often the caller is cancelled: nobody sees the
middle of it.

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
from typing import ParamSpec, Protocol, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class Waiting(Protocol):
    """A database connection that can wait for the locks of others."""

    def set_busy_timeout(self, milliseconds: int, /) -> None: ...


class SerialThread:
    """Runs functions on a thread of its own."""

    def __init__(self, name: str) -> None:
        self._requests: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    async def run(self, function: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
        """Runs a function to its end, after all that were requested before."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[T] = loop.create_future()

        def call() -> None:
            try:
                answer = partial(done.set_result, function(*arguments, **named))
            except BaseException as error:  # noqa: BLE001 - the caller gets it
                answer = partial(done.set_exception, error)
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
                loop.call_soon_threadsafe(answer)

        self._requests.put(call)
        return await outlasting(done)

    def wait_for_locks(self, connection: Waiting, seconds: float) -> None:
        """Lets statements of a connection wait this long for the locks of other processes."""
        connection.set_busy_timeout(round(seconds * 1000))

    def end(self) -> None:
        """Ends the thread, after all that it was asked to run."""
        self._requests.put(None)
        self._thread.join()

    def _work(self) -> None:
        while (call := self._requests.get()) is not None:
            call()


async def outlasting(done: asyncio.Future[T]) -> T:
    """The result of something that cannot be stopped, awaited even if the caller is cancelled."""
    try:
        return await asyncio.shield(done)
    except asyncio.CancelledError:
        while not done.done():
            with contextlib.suppress(asyncio.CancelledError):  # the caller was told once already
                await asyncio.wait([done])
        raise
