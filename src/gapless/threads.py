"""Threads that run functions for an event loop, those of the priority lane first.

`SerialThread` is for a file or connection that is used from one thread only. A function always runs
to its end: a cancelled caller waits for it, so no caller sees a half-done operation. The executors
of the standard library take twice the time, and the round trip to the thread is a large part of a
small transaction.

`LaneExecutor` is for functions that compute. One that has not started yet can be cancelled.
`LaneLock` is for threads that take turns.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future
from contextvars import copy_context
from functools import partial
from queue import SimpleQueue
from typing import Any, Generic, ParamSpec, Protocol, TypeVar

from gapless.lanes import Lane, LaneQueue, current_lane

P = ParamSpec("P")
T = TypeVar("T")


class _Calls(Generic[T]):
    """Hands items to threads, those of the priority lane first."""

    def __init__(self) -> None:
        self._items: LaneQueue[T] = LaneQueue()
        self._arrivals: SimpleQueue[None] = SimpleQueue()  # as many as there are items
        self._choosing = threading.Lock()

    def put(self, item: T, lane: Lane) -> None:
        self._items.append(item, lane)
        self._arrivals.put(None)

    def get(self) -> T:
        """Waits for an item and returns it."""
        self._arrivals.get()
        with self._choosing:
            return self._items.popleft()

    def waiting(self) -> list[T]:
        with self._choosing:
            return list(self._items)


class LockWaiting(Protocol):
    """A database connection that can wait for locks of other connections."""

    def set_busy_timeout(self, milliseconds: int, /) -> None: ...


class Unstoppable(asyncio.Future[T]):
    """The result of something that cannot be stopped.

    A task that is cancelled while it awaits this is cancelled at the end, once. It costs half of
    what `asyncio.shield` does, which also has to be awaited again.
    """

    def cancel(self, _message: object = None) -> bool:
        return False


class SerialThread:
    """Runs functions on its own thread."""

    def __init__(self, name: str) -> None:
        self._calls: _Calls[Callable[[], None] | None] = _Calls()
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    async def run(self, function: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
        """Runs a function on the thread, after all earlier ones of its lane, to its end."""
        loop = asyncio.get_running_loop()
        done: Unstoppable[T] = Unstoppable(loop=loop)
        context = copy_context()  # the function is in the lane of the caller

        def call() -> None:
            try:
                answer = partial(done.set_result, context.run(function, *arguments, **named))
            except BaseException as error:  # noqa: BLE001 - passed on to the caller
                answer = partial(done.set_exception, error)
            with contextlib.suppress(RuntimeError):  # the loop is closed, so no caller waits
                loop.call_soon_threadsafe(answer)

        self._calls.put(call, current_lane())
        return await done

    def wait_for_locks(self, connection: LockWaiting, seconds: float) -> None:
        """Lets statements of a connection wait this long for the locks of other processes."""
        connection.set_busy_timeout(round(seconds * 1000))

    def end(self) -> None:
        """Ends the thread after all pending functions have run."""
        self._calls.put(None, Lane.ORDINARY)
        self._thread.join()

    def _work(self) -> None:
        while (call := self._calls.get()) is not None:
            call()


class LaneLock:
    """A lock between threads; the priority lane gets it first."""

    def __init__(self) -> None:
        self._held = False
        self._waiting: LaneQueue[threading.Event] = LaneQueue()
        self._changing = threading.Lock()

    def __enter__(self) -> None:
        with self._changing:
            if not self._held:
                self._held = True
                return
            turn = threading.Event()
            self._waiting.append(turn, current_lane())
        turn.wait()

    def __exit__(self, *error: object) -> None:
        with self._changing:
            if self._waiting:
                self._waiting.popleft().set()
            else:
                self._held = False


class LaneExecutor(Executor):
    """Runs functions on a number of threads."""

    def __init__(self, threads: int, name: str) -> None:
        self._calls: _Calls[tuple[Future[Any], Callable[[], Any]] | None] = _Calls()
        self._is_shut_down = False
        self._threads = [
            threading.Thread(target=self._work, name=f"{name}-{number}", daemon=True)
            for number in range(threads)
        ]
        for thread in self._threads:
            thread.start()

    def submit(
        self, function: Callable[P, T], /, *arguments: P.args, **named: P.kwargs
    ) -> Future[T]:
        if self._is_shut_down:
            raise RuntimeError("the executor is shut down")
        done: Future[T] = Future()
        self._calls.put((done, partial(function, *arguments, **named)), current_lane())
        return done

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Ends the threads after all pending functions have run or, on request, are cancelled."""
        if not self._is_shut_down:
            self._is_shut_down = True
            for _ in self._threads:
                self._calls.put(None, Lane.ORDINARY)
        for call in self._calls.waiting() if cancel_futures else ():
            if call is not None:
                call[0].cancel()
        for thread in self._threads if wait else ():
            thread.join()

    def _work(self) -> None:
        while (call := self._calls.get()) is not None:
            _run(*call)
            del call  # releases the arguments and the result


def _run(done: Future[T], function: Callable[[], T]) -> None:
    if not done.set_running_or_notify_cancel():
        return
    try:
        result = function()
    except BaseException as error:  # noqa: BLE001 - passed on to the caller
        done.set_exception(error)
    else:
        done.set_result(result)
