"""Stops a process that runs an engine, even if a job or a server blocks it.

The first SIGINT or SIGTERM makes the engine drain; a second, deliberate one ends the process at
once. The process ends soon after its drain time, whatever still runs: a thread enforces that,
because a job may block the event loop and a server may never answer.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from queue import SimpleQueue
from typing import TextIO

from gapless.runtime.engine import Engine
from gapless.runtime.signals import ENDING, INTERRUPTED, protect_children
from gapless.runtime.worker import LEAVING_SECONDS

CLOSING_SECONDS = 4.0  # to close what a worker has opened, after it has stopped
SAME_REQUEST = 1.0  # seconds; terminals and supervisors may signal a process and its group


@asynccontextmanager
async def working(engine: Engine) -> AsyncIterator[asyncio.Event]:
    """Runs the engine; the first signal sets the event, even during startup.

    The drain time starts then, and the process ends soon after it, whatever still runs.
    """
    interrupted = asyncio.Event()
    with on_signals(interrupted.set, partial(ForcedExit().after, engine.drain_seconds)):
        async with engine:
            yield interrupted


@contextmanager
def on_signals(react: Callable[[], None], at_once: Callable[[], None]) -> Iterator[None]:
    """Reacts to the first SIGINT or SIGTERM; a later, deliberate one ends the process.

    `at_once` is called even if a job blocks the event loop.
    """
    loop = asyncio.get_running_loop()
    first: float | None = None

    def handle(_number: int, _frame: object) -> None:
        nonlocal first
        if first is None:
            first = time.monotonic()
            at_once()
            loop.call_soon_threadsafe(react)
        elif time.monotonic() - first > SAME_REQUEST:
            os._exit(INTERRUPTED)

    protect_children()
    before = {number: signal.signal(number, handle) for number in ENDING}
    try:
        yield
    finally:
        for number, handler in before.items():
            # Once the process is ending, a duplicate of that signal must not kill it.
            signal.signal(number, handler if first is None else signal.SIG_IGN)


@contextmanager
def stdout_kept_for_data() -> Iterator[TextIO]:
    """Redirects what jobs and their subprocesses print to stderr; yields the real stdout."""
    sys.stdout.flush()
    kept = os.dup(1)
    try:
        os.dup2(2, 1)
        with os.fdopen(os.dup(kept), "w", buffering=1) as stdout:
            yield stdout
    finally:
        sys.stdout.flush()
        os.dup2(kept, 1)
        os.close(kept)


def leave_if_stuck(engine: Engine, code: int = INTERRUPTED) -> None:
    """Exits at once if a job does not end: its chunk has an outcome, so nothing is lost.

    Threads that a job left behind invisibly, such as a cancelled call of `asyncio.to_thread`, have
    the drain time to end. Python would wait for them forever.
    """
    worker = engine.worker
    if worker is not None and (worker.orphans or worker.left_behind):
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    ForcedExit(code).after(engine.drain_seconds)


class ForcedExit:
    """Ends the process soon after its drain time, if it is still running.

    It uses a thread, because a job or a server may block the event loop. The thread is started in
    advance: a signal handler can wake a thread but cannot safely start one.
    """

    def __init__(self, code: int = INTERRUPTED) -> None:
        self._code = code
        self._drain: SimpleQueue[float] = SimpleQueue()
        threading.Thread(target=self._leave, name="gapless-departure", daemon=True).start()

    def after(self, drain: float) -> None:
        self._drain.put(drain)

    def _leave(self) -> None:
        time.sleep(self._drain.get() + LEAVING_SECONDS + CLOSING_SECONDS)
        os._exit(self._code)


def import_from_here() -> None:
    """Lets jobs be imported from the current folder, as `python -m` would."""
    if "" not in sys.path:
        sys.path.insert(0, "")
