"""A hanging run ends: when its time is up, or when its backfill is cancelled."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import suppress

import pytest

import gapless
from gapless.core.errors import StopRequested
from gapless.runtime import run
from gapless.runtime.engine import Engine
from gapless.runtime.worker import WorkerOptions
from tests.conformance.engine.conftest import QUICK
from tests.support import Home
from tests.waiting import eventually

OPTIONS = WorkerOptions(poll_seconds=0.05, heartbeat_seconds=0.05, drain_seconds=0.2)
ONE = gapless.Range("0", "0")
ONCE = gapless.RetryPolicy.backoff(base=0.0, max_delay=0.0, retries=0)


@pytest.fixture(autouse=True)
def short_graces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "CANCEL_GRACE", 0.2)
    monkeypatch.setattr(run, "INTERRUPT_GRACE", 0.2)


@pytest.fixture
def released() -> Iterator[threading.Event]:
    """Lets the threads of a test end after it."""
    event = threading.Event()
    yield event
    event.set()


async def hang_async(chunk: gapless.Chunk, context: gapless.Context) -> None:
    await asyncio.sleep(3600)


async def test_an_async_run_is_cancelled_when_its_time_is_up(engine: Engine) -> None:
    declare = gapless.job(partitions=gapless.block_heights(), retry=ONCE, timeout=0.3)
    handle = await engine.backfill(declare(hang_async), ONE)
    assert (await asyncio.wait_for(handle.wait(), 30)).state == "FAILED"
    (letter,) = await engine.ledger.dead(handle.id)
    assert letter.error_class == "RunTimeout"
    assert letter.error_message == "the run took longer than 0.3 s"
    (attempt,) = await engine.ledger.attempts(handle.id, 0)
    assert attempt.traceback is not None
    assert "asyncio.sleep(3600)" in attempt.traceback
    assert engine.worker is not None
    assert engine.worker.orphans == 0


async def test_a_timeout_counts_as_a_failed_attempt(engine: Engine) -> None:
    policy = gapless.RetryPolicy.backoff(base=0.0, max_delay=0.0, retries=2)
    seen: list[int] = []

    @gapless.job(partitions=gapless.block_heights(), retry=policy, timeout=0.2)
    async def slow_at_first(chunk: gapless.Chunk, context: gapless.Context) -> None:
        seen.append(context.attempt)
        if len(seen) < 3:
            await asyncio.sleep(3600)

    handle = await engine.backfill(slow_at_first, ONE)
    assert (await asyncio.wait_for(handle.wait(), 30)).state == "SUCCEEDED"
    assert seen == [1, 2, 3]


async def test_a_backfill_may_have_its_own_timeout(engine: Engine) -> None:
    job = gapless.job(partitions=gapless.block_heights(), retry=ONCE, timeout=3600)(hang_async)
    handle = await engine.backfill(job, ONE, timeout=0.2)
    failed = await asyncio.wait_for(handle.wait(), 30)
    assert (failed.state, failed.timeout) == ("FAILED", 0.2)
    child = await handle.retry_failed()
    assert (await child.progress()).timeout == 0.2
    assert (await asyncio.wait_for(child.wait(), 30)).state == "FAILED"


@pytest.mark.parametrize("on_thread", [False, True])
async def test_a_job_that_does_not_end_frees_its_slot(
    home: Home, released: threading.Event, on_thread: bool
) -> None:
    """Its thread cannot be killed, and its task swallows every cancellation: both are orphaned."""
    stubborn = True

    def thread(chunk: gapless.Chunk, context: gapless.BlockingContext) -> None:
        released.wait()

    async def task(chunk: gapless.Chunk, context: gapless.Context) -> None:
        while stubborn:
            try:
                await asyncio.sleep(0.05)
            except asyncio.CancelledError:
                continue

    @gapless.job(partitions=gapless.block_heights(), chunk_size=1, name="well-behaved")
    def well_behaved(chunk: gapless.Chunk, context: gapless.BlockingContext) -> None: ...

    declare = gapless.job(partitions=gapless.block_heights(), chunk_size=1, retry=ONCE, timeout=0.2)
    hanging = declare(thread if on_thread else task)
    async with Engine(home.url, slots=2, options=OPTIONS) as engine:
        assert engine.worker is not None
        handle = await engine.backfill(hanging, gapless.Range("0", "2"))
        failed = await asyncio.wait_for(handle.wait(), 30)
        assert failed.chunks.abandoned == 3
        assert engine.worker.orphans == 3
        (attempt,) = await engine.ledger.attempts(handle.id, 0)
        assert attempt.error_class == "RunTimeout"
        if on_thread:
            assert attempt.traceback is not None
            assert "released.wait()" in attempt.traceback
        after = await engine.backfill(well_behaved, gapless.Range("0", "9"))
        assert (await asyncio.wait_for(after.wait(), 30)).state == "SUCCEEDED"
        stubborn = False
        released.set()
        await eventually(lambda: engine.worker is not None and engine.worker.orphans == 0)


@pytest.mark.parametrize("on_thread", [False, True])
async def test_a_cancelled_backfill_does_not_wait_for_a_hanging_run(
    engine: Engine, released: threading.Event, on_thread: bool
) -> None:
    started = threading.Event()

    def thread(chunk: gapless.Chunk, context: gapless.BlockingContext) -> None:
        started.set()
        released.wait()

    async def task(chunk: gapless.Chunk, context: gapless.Context) -> None:
        started.set()
        await asyncio.sleep(3600)

    declare = gapless.job(partitions=gapless.block_heights(), chunk_size=1)
    handle = await engine.backfill(declare(thread if on_thread else task), ONE)
    await eventually(started.is_set)
    await handle.cancel()
    assert (await asyncio.wait_for(handle.wait(), 30)).state == "CANCELLED"
    assert engine.worker is not None
    assert engine.worker.orphans == on_thread


async def test_a_worker_drains_even_if_a_job_swallows_its_cancellation(home: Home) -> None:
    started, stubborn = asyncio.Event(), True

    @gapless.job(partitions=gapless.block_heights(), name="stubborn")
    async def swallow(chunk: gapless.Chunk, context: gapless.Context) -> None:
        started.set()
        while stubborn:
            try:
                await asyncio.sleep(0.05)
            except asyncio.CancelledError:
                continue

    async with asyncio.timeout(30), Engine(home.url, options=OPTIONS) as engine:
        handle = await engine.backfill(swallow, ONE)
        await started.wait()
    stubborn = False
    async with Engine(home.url, slots=None) as later:
        assert (await (await later.get(handle.id)).progress()).chunks.pending == 1


async def test_a_run_within_its_time_is_left_alone(engine: Engine) -> None:
    @gapless.job(partitions=gapless.block_heights(), chunk_size=1, timeout=60)
    async def quick(chunk: gapless.Chunk, context: gapless.Context) -> None:
        await asyncio.sleep(0.01)

    handle = await engine.backfill(quick, gapless.Range("0", "9"))
    assert (await asyncio.wait_for(handle.wait(), 30)).state == "SUCCEEDED"


async def test_a_job_that_returns_after_its_cancellation_is_not_complete(
    engine: Engine,
) -> None:
    """It returns, but how much of its work it has done is unknown."""

    @gapless.job(partitions=gapless.block_heights(), retry=ONCE, timeout=0.2)
    async def hasty(chunk: gapless.Chunk, context: gapless.Context) -> None:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            return

    handle = await engine.backfill(hasty, ONE)
    assert (await asyncio.wait_for(handle.wait(), 30)).state == "FAILED"
    (letter,) = await engine.ledger.dead(handle.id)
    assert letter.error_class == "RunTimeout"


async def test_a_job_that_swallows_a_request_to_stop_is_given_back(home: Home) -> None:
    reached, stop = asyncio.Event(), asyncio.Event()

    @gapless.job(partitions=gapless.block_heights(), chunk_size=10)
    async def hasty(chunk: gapless.Chunk, context: gapless.Context) -> None:
        with suppress(StopRequested):
            for height in chunk:
                if height == 2:
                    reached.set()
                    await stop.wait()
                context.progress(height)

    async with Engine(home.url, options=QUICK) as engine:
        handle = await engine.backfill(hasty, gapless.Range("0", "9"))
        await reached.wait()
        draining = asyncio.create_task(engine.drain())
        await asyncio.sleep(0)  # it is asked to stop
        stop.set()
        await draining
        (chunk,) = await engine.ledger.chunks(handle.id)
    assert (chunk.status, chunk.done) == ("PENDING", 3)
