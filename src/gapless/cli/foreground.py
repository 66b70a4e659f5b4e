"""Running things in the foreground: progress, signals, and what is said at the end."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Self

import click

from gapless.cli import render
from gapless.core.backfill import State
from gapless.ledger.records import Backfill, BackfillRequest
from gapless.runtime.engine import Engine
from gapless.runtime.job import Job
from gapless.runtime.worker import WorkerOptions

INTERRUPTED = 130
LINE_EVERY = 10.0


class ProgressDisplay:
    """One live line on a terminal; elsewhere a line now and then. All of it on stderr."""

    def __init__(self) -> None:
        self._live = sys.stderr.isatty()
        self._started = time.monotonic()
        self._shown_at = self._started

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._live:
            click.echo("\r\x1b[2K", nl=False, err=True)

    def show(self, backfill: Backfill) -> None:
        now = time.monotonic()
        line = render.progress_line(backfill, now - self._started)
        if self._live:
            click.echo(f"\r\x1b[2K{line}", nl=False, err=True)
        elif now - self._shown_at >= LINE_EVERY:
            self._shown_at = now
            click.echo(line, err=True)


async def run(ledger_url: str, job: Job, request: BackfillRequest, *, as_json: bool) -> int:
    """Creates a backfill, runs it here to its end, and reports; returns the exit code."""
    log_to_stderr(logging.ERROR)
    engine = Engine(
        ledger_url,
        slots={request.queue: request.max_concurrent_runs},
        options=WorkerOptions(only=request.id),
    )
    interrupted = asyncio.Event()
    async with engine:
        handle = await engine.submit(job, request)
        with ProgressDisplay() as display, on_signals(interrupted.set):
            waiting = asyncio.create_task(handle.wait())
            stopped = asyncio.create_task(interrupted.wait())
            while not (waiting.done() or stopped.done()):
                display.show(await handle.progress())
                await asyncio.wait(
                    [waiting, stopped], timeout=0.2, return_when=asyncio.FIRST_COMPLETED
                )
            if stopped.done():
                click.echo("\ndraining; once more to leave at once", err=True)
                await engine.drain()
            else:
                await waiting
            waiting.cancel()
            stopped.cancel()
            await asyncio.wait([waiting, stopped])
        found = await handle.progress()
        report(found, engine.ledger.url, as_json=as_json)
    if not found.state.ended:
        click.echo(f"\nhint: `gapless worker --ledger {engine.ledger.url}` goes on", err=True)
    leave_if_stuck(engine)
    if not found.state.ended:
        return INTERRUPTED
    return 0 if found.state is State.SUCCEEDED else 1


def report(found: Backfill, ledger_url: str, *, as_json: bool) -> None:
    """The summary for people on stderr, or the data on stdout."""
    if as_json:
        click.echo(render.to_json(render.backfill_json(found)))
    else:
        click.echo(render.summary(found, ledger_url))


@contextmanager
def on_signals(react: Callable[[], None]) -> Iterator[None]:
    """Reacts to the first SIGINT or SIGTERM; a second one ends the process."""
    loop = asyncio.get_running_loop()
    seen = 0

    def handle() -> None:
        nonlocal seen
        seen += 1
        if seen > 1:
            os._exit(INTERRUPTED)
        react()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, handle)
    try:
        yield
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)


def leave_if_stuck(engine: Engine) -> None:
    """Leaves at once if a thread does not end: the chunk was given back, nothing is lost."""
    if engine.worker is not None and engine.worker.orphans:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(INTERRUPTED)


def import_from_here() -> None:
    """Lets jobs be imported from the current folder, as `python -m` would."""
    if "" not in sys.path:
        sys.path.insert(0, "")


def log_to_stderr(level: int) -> None:
    logging.basicConfig(
        stream=sys.stderr, level=level, format="%(asctime)s %(levelname)s %(message)s"
    )
