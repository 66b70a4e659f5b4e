"""Calls a job's function on the event loop or on a thread.

Every call ends in a value: the exception that the function raised, or None. Exceptions that a
future cannot hold (`StopIteration`) and those that would end the event loop (`SystemExit`,
`KeyboardInterrupt`) are returned as values, too.

asyncio ends the process if any task raises an exit. So in tasks that a job starts, exits are
replaced by an error, which fails the job that awaits the task. A child process that a job forks
ends where it would return to the event loop: the loop belongs to the parent, with all other runs
and the connections that both processes share.

A call that does not end when asked can be abandoned, so that the worker no longer waits for it. A
thread cannot be killed, so another one replaces it, and it counts as an orphan until it ends.
"""

from __future__ import annotations

import asyncio
import inspect
import os
import sys
import threading
from collections.abc import Callable, Coroutine, Generator
from contextlib import suppress
from contextvars import ContextVar, copy_context
from itertools import count
from queue import SimpleQueue
from typing import Any

from gapless.core.errors import BadJob, JobError
from gapless.runtime.error_text import stack_of
from gapless.runtime.job import JobFunction

Raised = BaseException | None


class CallAbandoned(BaseException):
    """The call was abandoned: the worker no longer waits for it."""


_within_job = ContextVar("within_job", default=False)
_EXITS = (SystemExit, KeyboardInterrupt)  # these end the event loop


class _ExitsContained:
    """A task factory that guards the tasks that a job starts."""

    def __init__(self, make: Any) -> None:
        self._make = make or _task

    def __call__(self, loop: asyncio.AbstractEventLoop, coroutine: Any, **options: Any) -> Any:
        guarded = _OfJob(coroutine) if _within_job.get() else coroutine
        return self._make(loop, guarded, **options)


def contain_exits() -> None:
    """Keeps exceptions in tasks that a job starts from ending the process."""
    loop = asyncio.get_running_loop()
    make = loop.get_task_factory()
    if not isinstance(make, _ExitsContained):
        loop.set_task_factory(_ExitsContained(make))


def _task(loop: asyncio.AbstractEventLoop, coroutine: Any, **options: Any) -> asyncio.Task[Any]:
    return asyncio.Task(coroutine, loop=loop, **options)


class _OfJob(Coroutine[Any, Any, Any]):
    """A coroutine that raises an error instead of exiting, and runs in one process only.

    Everything else is delegated: libraries inspect the coroutine to see if a task has started.
    """

    def __init__(self, inner: Coroutine[Any, Any, Any]) -> None:
        self._inner = inner
        self._process = os.getpid()

    def send(self, value: Any) -> Any:
        try:
            return self._inner.send(value)
        except _EXITS as error:
            raise _task_exited(error) from error
        finally:
            self._end_child()

    def throw(self, *raised: Any) -> Any:
        try:
            return self._inner.throw(*raised)
        except _EXITS as error:
            raise _task_exited(error) from error
        finally:
            self._end_child()

    def close(self) -> None:
        self._inner.close()

    def __await__(self) -> Generator[Any, Any, Any]:
        return self._inner.__await__()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def _end_child(self) -> None:
        if os.getpid() != self._process:
            os._exit(1)


def _task_exited(error: BaseException) -> JobError:
    return JobError(f"a task of the job raised `{type(error).__name__}`: {error}")


class JobCall:
    """A call in progress; `ended` holds what it raised, or that it was abandoned."""

    def __init__(self, calls: Calls) -> None:
        self.ended: asyncio.Future[Raised] = asyncio.get_running_loop().create_future()
        self._calls = calls

    def cancel(self) -> None:
        """Asks the call to end, if that is possible."""

    def where(self) -> str | None:
        """The stack of the call, if it can be inspected."""
        return None

    def abandon(self) -> None:
        if not self.ended.done():
            self._calls.orphans.add(self)
            self.ended.set_result(CallAbandoned())

    def _end(self, raised: Raised) -> None:
        self._calls.orphans.discard(self)
        if not self.ended.done():
            self.ended.set_result(raised)


class _LoopCall(JobCall):
    def __init__(self, calls: Calls, function: JobFunction, *arguments: Any) -> None:
        super().__init__(calls)
        self._task = asyncio.create_task(_OfJob(_awaited(function, *arguments)))
        self._task.add_done_callback(self._finish)

    def cancel(self) -> None:
        self._task.cancel()

    def _finish(self, task: asyncio.Task[Raised]) -> None:
        # A task cancelled before its first step could not catch the cancellation.
        self._end(asyncio.CancelledError() if task.cancelled() else task.result())


class _ThreadCall(JobCall):
    def __init__(self, calls: Calls, function: JobFunction, *arguments: Any) -> None:
        super().__init__(calls)
        self._loop = asyncio.get_running_loop()
        self._thread = calls.thread()
        context = copy_context()  # so that what it awaits on the loop is in the lane of the run
        self._thread.work.put(lambda: context.run(self._run, function, *arguments))

    def where(self) -> str | None:
        frame = sys._current_frames().get(self._thread.ident)
        return None if frame is None else stack_of(frame)

    def _run(self, function: JobFunction, *arguments: Any) -> None:
        raised = _called(function, *arguments)
        with suppress(RuntimeError):  # the loop is closed, so nothing waits for the result
            self._loop.call_soon_threadsafe(self._finish, raised)

    def _finish(self, raised: Raised) -> None:
        self._calls.take_back(self._thread)
        self._end(raised)


class _JobThread:
    """A daemon thread that runs calls one after another."""

    def __init__(self, number: int) -> None:
        self.work: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        thread = threading.Thread(target=self._run, name=f"gapless-job-{number}", daemon=True)
        thread.start()
        assert thread.ident is not None
        self.ident = thread.ident

    def _run(self) -> None:
        while (call := self.work.get()) is not None:
            call()
            del call  # release the job's arguments


class Calls:
    """The calls of one worker, and the threads for those that need one."""

    def __init__(self) -> None:
        self.orphans: set[JobCall] = set()
        self._idle: list[_JobThread] = []
        self._numbers = count()
        self._closed = False

    def start(self, function: JobFunction, *arguments: Any, on_thread: bool) -> JobCall:
        kind = _ThreadCall if on_thread else _LoopCall
        return kind(self, function, *arguments)

    def thread(self) -> _JobThread:
        return self._idle.pop() if self._idle else _JobThread(next(self._numbers))

    def take_back(self, thread: _JobThread) -> None:
        if self._closed:
            thread.work.put(None)
        else:
            self._idle.append(thread)

    def close(self) -> None:
        """Ends the threads, except those of orphans, which end with their calls."""
        self._closed = True
        while self._idle:
            self._idle.pop().work.put(None)


async def _awaited(function: JobFunction, *arguments: Any) -> Raised:
    _within_job.set(True)
    process = os.getpid()
    try:
        _require_finished(await function(*arguments))
    except BaseException as error:  # noqa: BLE001 - a job may raise anything
        return _in_process(process, error)
    return _in_process(process, None)


def _called(function: JobFunction, *arguments: Any) -> Raised:
    process = os.getpid()
    try:
        _require_finished(function(*arguments))
    except BaseException as error:  # noqa: BLE001 - a job may raise anything
        return _in_process(process, error)
    return _in_process(process, None)


def _in_process(process: int, raised: Raised) -> Raised:
    """Returns what the call raised; a child process that the job forked ends here."""
    if os.getpid() != process:
        os._exit(0 if raised is None else 1)
    return raised


def _require_finished(result: object) -> None:
    """Refuses a result, such as a coroutine, that shows that the work was not done."""
    if inspect.iscoroutine(result) or inspect.isgenerator(result):
        result.close()
    elif not (inspect.isasyncgen(result) or inspect.isawaitable(result)):
        return
    raise BadJob(
        f"the job returned a `{type(result).__name__}`, so its work was not done",
        hint="declare the function with `async def` and await the calls in it",
    )
