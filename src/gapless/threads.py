"""A thread that runs functions for an event loop, one after the other.

A file or connection is used from one thread only, while the event loop keeps running. A function
that has begun always runs to its end: a cancelled caller waits for it, so nobody sees a half-done
operation.

The executors of the standard library take twice the time, and the way to the thread and back is a
large part of a small transaction.
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
        self._calls: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    async def run(self, function: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
        """Runs a function on the thread, after all earlier ones, to its end."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[T] = loop.create_future()

        def call() -> None:
            try:
                answer = partial(done.set_result, function(*arguments, **named))
            except BaseException as error:  # noqa: BLE001 - passed on to the caller
                answer = partial(done.set_exception, error)
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
                loop.call_soon_threadsafe(answer)

        self._calls.put(call)
        return await outlasting(done)

    def wait_for_locks(self, connection: Waiting, seconds: float) -> None:
        """Lets statements of a connection wait this long for the locks of other processes."""
        connection.set_busy_timeout(round(seconds * 1000))

    def end(self) -> None:
        """Ends the thread after all pending functions have run."""
        self._calls.put(None)
        self._thread.join()

    def _work(self) -> None:
        while (call := self._calls.get()) is not None:
            call()


async def outlasting(done: asyncio.Future[T]) -> T:
    """The result of something that cannot be stopped, awaited even if the caller is cancelled."""
    try:
        return await asyncio.shield(done)
    except asyncio.CancelledError:
        while not done.done():
            with contextlib.suppress(asyncio.CancelledError):  # raised once, at the end
                await asyncio.wait([done])
        raise
