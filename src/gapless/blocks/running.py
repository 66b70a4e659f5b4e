"""Runs a fetch, with one orchestration for all callers.

The command line, `gapless.fetch` and repairs all run fetches here. An observer decides what is
shown and when the fetch is interrupted.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Protocol

import msgspec

from gapless.blocks import job as blocks
from gapless.blocks.block_pipeline import BlockPipeline, keep_profiles, pipeline_between
from gapless.blocks.child_protocol import FetchTask
from gapless.blocks.counts import Counts
from gapless.blocks.processes import ChildProcesses
from gapless.blocks.result import FetchResult
from gapless.blocks.session import FetchSession
from gapless.ledger.records import Backfill, BackfillRequest
from gapless.providers import Share
from gapless.runtime.engine import BackfillHandle, Engine
from gapless.runtime.watching import SilentWatcher, Watcher, watch
from gapless.runtime.work import Work
from gapless.runtime.worker import WorkerOptions


class FetchRun:
    """A fetch that is running, in this process and in its children."""

    def __init__(self, session: FetchSession, pipeline: BlockPipeline) -> None:
        self.session, self.pipeline = session, pipeline
        self.children: ChildProcesses | None = None

    @property
    def counts(self) -> Counts:
        """The counters of all processes."""
        own = self.pipeline.counts
        return own if self.children is None else own + self.children.counts


class FetchObserver(Watcher, Protocol):
    """Watches a fetch, and may interrupt it."""

    json_logs: bool  # how child processes log

    def running(self, engine: Engine, run: FetchRun) -> AbstractAsyncContextManager[asyncio.Event]:
        """Enters and leaves the engine; the event is set when the fetch should stop."""

    def started(self, backfill_id: str) -> None: ...

    def say(self, line: str) -> None:
        """Shows a line that a child process has logged."""

    def out_of_calls(self) -> None:
        """Called when no more calls are allowed and the fetch stops."""

    def ended(self, works: list[Work], seconds: float) -> None:
        """Called at the end with the work of each process."""


class SilentObserver(SilentWatcher):
    """An observer for programs: nothing is shown, and nothing interrupts."""

    json_logs = False

    @asynccontextmanager
    async def running(self, engine: Engine, run: FetchRun) -> AsyncIterator[asyncio.Event]:
        async with engine:
            yield asyncio.Event()

    def started(self, backfill_id: str) -> None: ...

    def say(self, line: str) -> None: ...

    def out_of_calls(self) -> None: ...

    def ended(self, works: list[Work], seconds: float) -> None: ...


async def run_fetch(session: FetchSession, observer: FetchObserver) -> FetchResult:
    """Runs a fetch until it ends or is interrupted; returns at once if nothing is missing."""
    if not session.missing:
        return await session.result()
    assert session.sink is not None
    clock = session.providers.system.clock
    began = clock()
    wanted = await session.wanted()
    with pipeline_between(session.spec, session.pool, session.sink) as pipeline:
        run = FetchRun(session, pipeline)
        engine = await _engine(session, wanted)
        async with observer.running(engine, run) as interrupted:
            handle = await _start(engine, pipeline, wanted)
            observer.started(handle.id)
            async with (
                _children(run, engine, handle.id, observer) as children,
                _stopping_together(pipeline, children, interrupted, observer),
            ):
                await watch(engine, handle, observer, interrupted)
            assert engine.worker is not None
            observer.ended(children.works(engine.worker.ended), clock() - began)
            ended = await handle.progress()
            await keep_profiles(engine.ledger, session.spec.network, session.pool)
        return await session.result(run.counts, ended, clock() - began)


async def _engine(session: FetchSession, wanted: Backfill | BackfillRequest) -> Engine:
    """The engine that runs only this fetch.

    With several processes, each runs its share of the concurrent chunks.
    """
    slots = max(1, wanted.max_concurrent_runs // session.request.processes)
    return Engine(
        await session.ledger.created(),
        slots={wanted.queue: slots},
        options=WorkerOptions(only=wanted.id),
        config=session.config,
        system=session.providers.system,
    )


async def _start(
    engine: Engine, pipeline: BlockPipeline, wanted: Backfill | BackfillRequest
) -> BackfillHandle:
    """Creates the backfill in a running engine, or resumes it.

    Repeating a fetch asks for it now, so chunks waiting for a retry become due at once.
    """
    job = blocks.job(pipeline)
    if isinstance(wanted, BackfillRequest):
        return await engine.submit(job, wanted)
    await engine.ledger.hasten(wanted.id)
    return await engine.attach(job, wanted.id)


@asynccontextmanager
async def _children(
    run: FetchRun, engine: Engine, backfill_id: str, observer: FetchObserver
) -> AsyncIterator[ChildProcesses]:
    """The child processes; each gets the same share of all limits as this process."""
    assert engine.worker is not None
    session = run.session
    tasks = [
        FetchTask(
            ledger=session.ledger.url,
            backfill=backfill_id,
            slots=dict(engine.worker.slots),
            spec=msgspec.to_builtins(session.spec),
            config=session.config,
            workers=session.request.numbers.workers,
            share=share,
            max_calls=session.max_calls,
            as_json=observer.json_logs,
        )
        for share in Share(0, session.request.processes).others()
    ]
    children = ChildProcesses(
        tasks, observer.say, observer.warn, engine.free_dead, session.providers
    )
    async with children:
        run.children = children
        yield children


@asynccontextmanager
async def _stopping_together(
    pipeline: BlockPipeline,
    children: ChildProcesses,
    interrupted: asyncio.Event,
    observer: FetchObserver,
) -> AsyncIterator[None]:
    """Stops all processes together: on an interrupt, or when no calls are left."""

    async def stop_when_used_up() -> None:
        await pipeline.used_up.wait()
        observer.out_of_calls()
        interrupted.set()

    async def dismiss_when_interrupted() -> None:
        await interrupted.wait()
        children.dismiss()

    tasks = [asyncio.create_task(stop_when_used_up())]
    tasks.append(asyncio.create_task(dismiss_when_interrupted()))
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
