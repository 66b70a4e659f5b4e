"""Running things in the foreground: signals, what jobs print, and what is said at the end."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import partial
from queue import SimpleQueue
from typing import TextIO

import click

from gapless.cli import render, speech
from gapless.cli.app import INTERRUPTED
from gapless.cli.display import ProgressDisplay
from gapless.cli.logs import log_to_stderr
from gapless.cli.metrics import MetricsPage, metrics_page
from gapless.cli.options import commands, hint, note, opened
from gapless.cli.output import print_json
from gapless.cli.report import exit_code, report
from gapless.cli.signals import ENDING, protect_children
from gapless.cli.waiting import standstill
from gapless.core.errors import LedgerUnreachable, NotFound, WrongState
from gapless.ledger.records import Backfill, BackfillRequest
from gapless.runtime.engine import BackfillHandle, Engine
from gapless.runtime.job import Job
from gapless.runtime.worker import LEAVING_SECONDS, WorkerOptions
from gapless.views.backfills import backfill_view

REDRAW_EVERY = 0.2
CLOSING_SECONDS = 4.0  # for what a worker has opened, once it has left
ONE_WISH = 1.0  # `timeout`, terminals and supervisors signal a process and its group: twice


async def run(
    ledger_url: str,
    job: Job,
    request: BackfillRequest,
    *,
    as_json: bool,
    metrics_port: int | None = None,
) -> int:
    """Creates a backfill or takes it up, runs it here to its end; returns the exit code."""
    async with metrics_page(metrics_port) as page:
        return await _run(ledger_url, job, request, page, as_json=as_json)


async def _run(
    ledger_url: str, job: Job, request: BackfillRequest, page: MetricsPage, *, as_json: bool
) -> int:
    wanted = await _there_already(ledger_url, job, request) or request
    engine = Engine(
        ledger_url,
        slots={wanted.queue: wanted.max_concurrent_runs},
        options=WorkerOptions(only=request.id),
    )
    with ProgressDisplay() as display, stdout_kept_for_data() as stdout:
        log_to_stderr(logging.WARNING, as_json=as_json, say=display.write_line)
        async with working(engine, page) as interrupted:
            handle = await engine.submit(job, request)
            if wanted is not request:  # somebody asks again, and does not want to wait
                await engine.ledger.hasten(handle.id)
            if not as_json:
                click.echo(handle.id, file=stdout)
            display.say(render.plan(backfill_view(await handle.progress())))
            await run_to_the_end(engine, handle, display, interrupted)
            found = await handle.progress()
    if as_json:
        print_json(backfill_view(found))
    else:
        note(render.outcome(found))
    report(found, engine.ledger.url)
    shown = backfill_view(found)
    if not found.state.ended and render.next_step(shown, (), commands()) is None:
        hint(render.worker_needed(shown, commands()))
    code = exit_code(found) if found.state.ended else INTERRUPTED
    leave_if_stuck(engine, code)
    return code


async def _there_already(ledger_url: str, job: Job, request: BackfillRequest) -> Backfill | None:
    """The backfill of this id if it is there already: it keeps its own queue and numbers."""
    async with opened(ledger_url, create=True) as ledger:
        with suppress(NotFound):
            there = await ledger.backfill(request.id)
            if there.job == job.name and there.job_version != job.version:
                raise WrongState(
                    f"backfill `{there.id}` runs version {there.job_version} of `{job.name}`,"
                    f" this is version {job.version}",
                    hint="give another id, or run it where that version is",
                )
            return there
    return None


@asynccontextmanager
async def working(engine: Engine, page: MetricsPage) -> AsyncIterator[asyncio.Event]:
    """The engine at work; the event is set by the first signal, however early it comes.

    The process ends soon after the drain time that begins then, whatever still runs or waits.
    """
    interrupted = asyncio.Event()
    with on_signals(interrupted.set, partial(Departure().after, engine.drain_seconds)):
        async with engine:
            with page.of(engine):
                yield interrupted


async def work(engine: Engine, stopped: asyncio.Event, *, until_idle: bool) -> None:
    """Waits until it is stopped, or until there is nothing left to do."""
    stop = asyncio.create_task(stopped.wait())
    while not stopped.is_set():
        settled = asyncio.create_task(engine.something_settled())
        await asyncio.wait([stop, settled], return_when=asyncio.FIRST_COMPLETED)
        if settled.done():
            settled.result()  # a worker that died says why
        settled.cancel()
        with suppress(LedgerUnreachable):  # the worker keeps trying, and so do we
            if until_idle and await engine.is_idle():
                break
    stop.cancel()


async def run_to_the_end(
    engine: Engine, handle: BackfillHandle, display: ProgressDisplay, interrupted: asyncio.Event
) -> None:
    """Shows how it goes until the backfill has ended, or a signal has drained the engine."""
    stopped = asyncio.create_task(interrupted.wait())
    trouble = ""
    while not interrupted.is_set():
        try:
            now = await handle.progress()
            waiting = await standstill(engine.ledger, now)
        except LedgerUnreachable as error:  # the worker keeps trying, and so do we
            if trouble != str(error):
                trouble = str(error)
                display.write_line(speech.spoken(trouble, "warning"))
        else:
            trouble = ""
            if now.state.ended:
                break
            display.show(now, waiting)
        settled = asyncio.create_task(engine.something_settled())
        await asyncio.wait(
            [stopped, settled], timeout=REDRAW_EVERY, return_when=asyncio.FIRST_COMPLETED
        )
        if settled.done():
            settled.result()
        settled.cancel()
    else:
        await _drain(engine, display)
    stopped.cancel()


async def _drain(engine: Engine, display: ProgressDisplay) -> None:
    """Ends what runs, and shows what that waits for."""
    draining = asyncio.create_task(engine.drain())
    display.show_finishing(first=True)
    while not draining.done():
        await asyncio.wait([draining], timeout=REDRAW_EVERY)
        display.show_finishing(first=False)
    draining.result()


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
        elif time.monotonic() - first > ONE_WISH:
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
