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
import heapq
from asyncio import events
from collections.abc import Callable, Coroutine
from contextlib import suppress
from contextvars import Context, ContextVar, copy_context
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
        self._held: list[events.Handle] = []

    def __repr__(self) -> str:
        return self.name

    def admits(self, handle: events.Handle) -> bool:
        """Whether a callback may run now; during a pause, callbacks are held back."""
        if self.alive and self.paused:
            self._held.append(handle)
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


class _Handle(events.Handle):
    def _run(self) -> None:
        process = self._context.get(PROCESS)  # type: ignore[attr-defined]
        if process is None or process.admits(self):
            super()._run()


class _TimerHandle(events.TimerHandle):
    def _run(self) -> None:
        process = self._context.get(PROCESS)  # type: ignore[attr-defined]
        if process is None or process.admits(self):
            super()._run()


class VirtualLoop(asyncio.BaseEventLoop):
    """An event loop without input or output; `most_steps` limits how long it runs."""

    def __init__(self, most_steps: int = 2_000_000) -> None:
        super().__init__()
        self._now = START
        self._selector = _Jump(self)
        self._clock_resolution = self.resolution = 1e-6
        self._steps_left = most_steps
        self.set_task_factory(_task)

    def time(self) -> float:
        return self._now

    def jump(self, seconds: float) -> None:
        self._now += seconds

    def requeue(self, handles: list[events.Handle]) -> None:
        """Runs callbacks next that were held back."""
        self._ready.extend(handles)  # type: ignore[attr-defined]

    def call_at(  # type: ignore[override]
        self,
        when: float,
        callback: Callable[..., object],
        *args: Any,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        timer = _TimerHandle(when, callback, args, self, context)
        heapq.heappush(self._scheduled, timer)  # type: ignore[attr-defined]
        timer._scheduled = True  # type: ignore[attr-defined]
        return timer

    def call_later(  # type: ignore[override]
        self,
        delay: float,
        callback: Callable[..., object],
        *args: Any,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
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

    def _call_soon(
        self, callback: Callable[..., object], args: Any, context: Context | None
    ) -> asyncio.Handle:
        handle = _Handle(callback, args, self, context)
        self._ready.append(handle)  # type: ignore[attr-defined]
        return handle

    def _run_once(self) -> None:
        self._steps_left -= 1
        if self._steps_left < 0:
            raise Stuck(f"still busy at {self._now:.3f}, after all the steps that a run may take")
        super()._run_once()  # type: ignore[misc]

    def _process_events(self, event_list: list[Any]) -> None:
        pass

    def _write_to_self(self) -> None:
        pass


class _Jump:
    """Replaces the selector: instead of waiting, it advances the time."""

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop

    def select(self, timeout: float | None) -> list[Any]:
        if timeout is None:
            raise Stuck(f"everybody waits at {self._loop.time():.3f}, and for nothing")
        self._loop.jump(timeout)
        return []


def _task(
    loop: asyncio.AbstractEventLoop, coroutine: Any, context: Context | None = None, **more: Any
) -> asyncio.Task[Any]:
    task: asyncio.Task[Any] = asyncio.Task(coroutine, loop=loop, context=context, **more)
    process = PROCESS.get() if context is None else context.get(PROCESS)
    if process is not None:
        process.tasks.append(task)
    return task
