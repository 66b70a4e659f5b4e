"""An event loop with virtual time, and the processes that share it.

Nothing ever waits: when no callback is ready, time jumps to the next timer. So an hour of backoff
takes no longer than the callbacks in it, and the order of callbacks follows from the code and the
seed alone.

Every callback belongs to the process in whose context it was scheduled, or to none. A process that
has crashed runs no more callbacks: not even a `finally` of its tasks, which are kept as they are
until the run is over. A process that is paused, as by SIGSTOP or a suspended machine, gets its
callbacks later, in order, while time continues for all others.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from contextlib import suppress
from contextvars import Context, ContextVar, copy_context
from heapq import heappop, heappush
from itertools import count
from typing import Any

START = 1000.0
"""The time at which every run begins; no real clock is near zero."""

_CLOSINGS = 10


class Stuck(Exception):
    """Nothing can happen any more, or too much happens without end."""


class Process:
    """A process of the simulation, as its event loop sees it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.alive = True
        self.paused = False
        self.woke_at = self._wakes_at = float("-inf")  # after its last pause
        self.tasks: list[asyncio.Task[Any]] = []  # including ended ones: they are few
        self.death = asyncio.Event()
        self.at_death: list[Callable[[], None]] = []
        self._held: list[Callback] = []

    def __repr__(self) -> str:
        return self.name

    def admits(self, called: Callback) -> bool:
        """Whether a callback may run now; during a pause, callbacks are held back."""
        if self.alive and self.paused:
            self._held.append(called)
        return self.alive and not self.paused

    def start(self, main: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Runs a coroutine as the main task of this process."""
        context = copy_context()
        context.run(PROCESS.set, self)
        loop = asyncio.get_running_loop()
        return loop.create_task(main, name=f"{self.name}-main", context=context)

    def crash(self) -> None:
        """Ends it at once, as `kill -9` does: open files are closed, nothing else happens."""
        self.alive = False
        self.death.set()
        self._held.clear()
        for act in self.at_death:
            act()

    def pause(self, seconds: float) -> None:
        """Stops it for a while; it cannot know, and its clock does not stop."""
        loop = asyncio.get_running_loop()
        self.paused = True
        self._wakes_at = max(self._wakes_at, loop.time() + seconds)
        loop.call_at(self._wakes_at, self._resume, context=Context())  # as a callback of no process

    def _resume(self) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        if self.paused and loop.time() >= self._wakes_at - loop.resolution:
            self.paused, self.woke_at = False, loop.time()
            loop.requeue(self._held)
            self._held = []

    def dispose(self) -> None:
        """Closes the coroutines that a crash interrupted."""
        for task in self.tasks:
            if task.done():
                continue
            task._log_destroy_pending = False  # type: ignore[attr-defined]
            coroutine: Any = task.get_coro()
            for _ in range(_CLOSINGS):  # a `finally` that awaits refuses to be closed
                with suppress(BaseException):
                    coroutine.close()
                    break


PROCESS: ContextVar[Process | None] = ContextVar("simulated_process", default=None)


class Callback:
    """Something that runs once, unless it is cancelled: a handle that costs little."""

    __slots__ = ("args", "context", "function", "process", "time", "wanted")

    def __init__(
        self, function: Callable[..., object], args: Any, context: Context | None, time: float
    ) -> None:
        self.function, self.args = function, args
        self.context = copy_context() if context is None else context
        self.process = self.context.get(PROCESS)
        self.time = time
        self.wanted = True

    def cancel(self) -> None:
        self.wanted = False

    def cancelled(self) -> bool:
        return not self.wanted

    def when(self) -> float:
        return self.time


class VirtualLoop(asyncio.BaseEventLoop):
    """An event loop without input or output; `most_steps` limits how long it runs."""

    def __init__(self, most_steps: int = 2_000_000) -> None:
        super().__init__()
        self._now = START
        self.resolution = 1e-6
        self._steps_left = most_steps
        self._soon: deque[Callback] = deque()
        self._later: list[tuple[float, int, Callback]] = []  # a heap
        self._numbers = count()  # callbacks of one moment run in the order of their calls
        self.set_task_factory(_task)

    def time(self) -> float:
        return self._now

    def requeue(self, callbacks: list[Callback]) -> None:
        """Runs callbacks next that were held back."""
        self._soon.extend(callbacks)

    def call_soon(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> Callback:
        called = Callback(callback, args, context, self._now)
        self._soon.append(called)
        return called

    def call_at(  # type: ignore[override]
        self,
        when: float,
        callback: Callable[..., object],
        *args: Any,
        context: Context | None = None,
    ) -> Callback:
        called = Callback(callback, args, context, when)
        heappush(self._later, (when, next(self._numbers), called))
        return called

    def call_later(  # type: ignore[override]
        self,
        delay: float,
        callback: Callable[..., object],
        *args: Any,
        context: Context | None = None,
    ) -> Callback:
        return self.call_at(self._now + delay, callback, *args, context=context)

    def run_in_executor(  # type: ignore[override]
        self, executor: Any, func: Callable[..., Any], *args: Any
    ) -> asyncio.Future[Any]:
        """Runs a function here, after the delay of the simulated executor."""
        done = self.create_future()

        def call() -> None:
            if done.cancelled():
                return
            try:
                done.set_result(func(*args))
            except Exception as error:  # noqa: BLE001 - the caller gets it
                done.set_exception(error)

        self.call_later(executor.delay(), call)
        return done

    def _run_once(self) -> None:
        """Runs all callbacks that are ready now; if there is none, time jumps to the next."""
        self._steps_left -= 1
        if self._steps_left < 0:
            raise Stuck(f"still busy at {self._now:.3f}, after all the steps that a run may take")
        soon, later = self._soon, self._later
        while later and not later[0][2].wanted:
            heappop(later)
        if not soon:
            if not later:
                raise Stuck(f"everybody waits at {self._now:.3f}, and for nothing")
            self._now = max(self._now, later[0][0])
        until = self._now + self.resolution
        while later and later[0][0] < until:
            soon.append(heappop(later)[2])
        for _ in range(len(soon)):
            called = soon.popleft()
            if called.wanted:
                self._run(called)

    def _run(self, called: Callback) -> None:
        process = called.process
        if process is not None and not process.admits(called):
            return
        try:
            called.context.run(called.function, *called.args)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # noqa: BLE001 - as in other loops
            self.call_exception_handler({"message": "a callback failed", "exception": error})


def _task(
    loop: asyncio.AbstractEventLoop, coroutine: Any, context: Context | None = None, **more: Any
) -> asyncio.Task[Any]:
    task: asyncio.Task[Any] = asyncio.Task(coroutine, loop=loop, context=context, **more)
    process = PROCESS.get() if context is None else context.get(PROCESS)
    if process is not None:
        process.tasks.append(task)
    return task
