"""How a process that runs an engine is told to end, and how it makes sure that it does.

The first SIGINT or SIGTERM lets the engine drain; a second one, sent with intent, ends the process
at once. Whatever still runs or waits, the process ends soon after its drain time: a thread sees to
that, because a job may hold the event loop up, and a server may never answer.
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

CLOSING_SECONDS = 4.0  # for what a worker has opened, once it has left
SAME_REQUEST = 1.0  # `timeout`, terminals and supervisors signal a process and its group: twice


@asynccontextmanager
async def working(engine: Engine) -> AsyncIterator[asyncio.Event]:
    """The engine at work; the event is set by the first signal, however early it comes.

    The process ends soon after the drain time that begins then, whatever still runs or waits.
    """
    interrupted = asyncio.Event()
    with on_signals(interrupted.set, partial(Departure().after, engine.drain_seconds)):
        async with engine:
            yield interrupted


@contextmanager
def on_signals(react: Callable[[], None], at_once: Callable[[], None]) -> Iterator[None]:
    """Reacts to the first SIGINT or SIGTERM; a later one, sent with intent, ends the process.

    `at_once` is called even if a job keeps the event loop from ever reacting.
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
            # Once it is leaving, the echo of that signal must not kill it.
            signal.signal(number, handler if first is None else signal.SIG_IGN)


@contextmanager
def stdout_kept_for_data() -> Iterator[TextIO]:
    """Sends to stderr whatever jobs print, even from a subprocess; yields the real stdout."""
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
    """Leaves at once if a job does not end: its chunk has an outcome, so nothing is lost.

    What a job has left behind that nobody can see, such as a call of `asyncio.to_thread` that was
    cancelled, has the drain time to end. Python would wait for it for ever.
    """
    worker = engine.worker
    if worker is not None and (worker.orphans or worker.left_behind):
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    Departure(code).after(engine.drain_seconds)


class Departure:
    """Ends the process soon after its drain time, unless it has ended by then.

    A thread sees to it: the event loop may be held up by a job, or wait for a server. It waits
    from the start, because a signal's handler can tell it to go ahead, but could not start it.
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
