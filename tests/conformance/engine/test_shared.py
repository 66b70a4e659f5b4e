"""Runs of one worker share what is expensive to open: it is opened once and closed at the end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import pytest

import gapless
from gapless.core.backfill import State
from gapless.core.errors import StopRequested
from gapless.runtime.engine import Engine
from gapless.runtime.shared import Shared
from tests.conformance.engine.conftest import QUICK
from tests.support import Home

AT_ONCE = gapless.RetryPolicy.backoff(base=0.0, max_delay=0.0, retries=2)


class Things:
    """Opens things by name, and records what happens to them in order."""

    def __init__(self) -> None:
        self.events: list[str] = []

    def __call__(
        self, name: str, ready: asyncio.Event | None = None
    ) -> Callable[[], AbstractAsyncContextManager[str]]:
        @asynccontextmanager
        async def opening() -> AsyncIterator[str]:
            self.events.append(f"opening {name}")
            async with asyncio.TaskGroup():  # which must be exited in the task that entered it
                if ready is not None:
                    await ready.wait()
                yield name
            self.events.append(f"closed {name}")

        return opening


async def test_many_runs_open_a_thing_once_and_it_outlives_them_all(home: Home) -> None:
    things, ready, waiting = Things(), asyncio.Event(), 0

    @gapless.job(partitions=gapless.block_heights(), chunk_size=1)
    async def copy(chunk: gapless.Chunk, context: gapless.Context) -> None:
        nonlocal waiting
        waiting += 1
        if waiting == 4:
            ready.set()
        assert await context.shared("pool", things("pool", ready)) == "pool"
        things.events.append("run ended")

    async with Engine(home.url, options=QUICK) as engine:
        handle = await engine.backfill(copy, gapless.Range("0", "7"), max_concurrent_runs=4)
        assert (await asyncio.wait_for(handle.wait(), 20)).state is State.SUCCEEDED
    assert things.events == ["opening pool", *["run ended"] * 8, "closed pool"]


async def test_a_plain_job_shares_in_the_same_way(home: Home) -> None:
    things = Things()

    @gapless.job(partitions=gapless.block_heights(), chunk_size=1)
    def copy(chunk: gapless.Chunk, context: gapless.BlockingContext) -> None:
        assert context.shared("pool", things("pool")) == "pool"

    async with Engine(home.url, options=QUICK) as engine:
        handle = await engine.backfill(copy, gapless.Range("0", "7"))
        assert (await asyncio.wait_for(handle.wait(), 20)).state is State.SUCCEEDED
    assert things.events == ["opening pool", "closed pool"]


async def test_a_failed_opening_is_retried_by_the_next_run(home: Home) -> None:
    things, failing = Things(), iter([True])

    @asynccontextmanager
    async def flaky() -> AsyncIterator[str]:
        if next(failing, False):
            raise OSError("no route to host")
        async with things("pool")() as pool:
            yield pool

    @gapless.job(partitions=gapless.block_heights(), chunk_size=1, retry=AT_ONCE)
    async def copy(chunk: gapless.Chunk, context: gapless.Context) -> None:
        await context.shared("pool", flaky)

    async with Engine(home.url, options=QUICK) as engine:
        handle = await engine.backfill(copy, gapless.Range("0", "0"))
        assert (await asyncio.wait_for(handle.wait(), 20)).state is State.SUCCEEDED
    assert things.events == ["opening pool", "closed pool"]


async def test_the_last_one_opened_is_closed_first() -> None:
    things = Things()
    async with Shared() as shared:

        @asynccontextmanager
        async def sink() -> AsyncIterator[str]:
            pool = await shared.get("pool", things("pool"))
            async with things(f"sink on {pool}")() as value:
                yield value

        assert await shared.get("sink", sink) == "sink on pool"
        await shared.get("last", things("last"))
    assert things.events[-3:] == ["closed last", "closed sink on pool", "closed pool"]


async def test_a_cancelled_caller_leaves_the_opening_to_the_others() -> None:
    things, ready = Things(), asyncio.Event()
    async with Shared() as shared:
        first = asyncio.create_task(shared.get("pool", things("pool", ready)))
        second = asyncio.create_task(shared.get("pool", things("another")))
        await asyncio.sleep(0)
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        ready.set()
        assert await second == "pool"
    assert things.events == ["opening pool", "closed pool"]


async def test_every_waiting_caller_gets_the_error_of_a_failed_opening() -> None:
    class Broken(AbstractAsyncContextManager[str]):
        async def __aenter__(self) -> str:
            await asyncio.sleep(0)
            raise OSError("no route to host")

        async def __aexit__(self, *error: object) -> None: ...

    async with Shared() as shared:
        waiting = [shared.get("pool", Broken) for _ in range(3)]
        heard = await asyncio.gather(*waiting, return_exceptions=True)
        assert [str(error) for error in heard] == ["no route to host"] * 3


async def test_a_failure_to_close_one_does_not_keep_others_open() -> None:
    things = Things()

    @asynccontextmanager
    async def stuck() -> AsyncIterator[str]:
        yield "stuck"
        raise OSError("disk full")

    shared = Shared()
    await shared.get("pool", things("pool"))
    await shared.get("stuck", stuck)
    with pytest.raises(ExceptionGroup) as error:
        await shared.__aexit__()
    assert error.group_contains(OSError, match="disk full")
    assert things.events == ["opening pool", "closed pool"]
    with pytest.raises(StopRequested):
        await shared.get("pool", things("pool"))


async def test_an_opening_that_raises_stop_iteration_does_not_block_its_callers() -> None:
    def opening() -> AbstractAsyncContextManager[str]:
        raise StopIteration("nothing left")

    async with asyncio.timeout(10), Shared() as shared:
        with pytest.raises(RuntimeError, match="nothing left"):
            await shared.get("thing", opening)
