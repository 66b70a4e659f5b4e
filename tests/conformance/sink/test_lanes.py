"""A write of the priority lane goes before all ordinary ones that wait for the same sink."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from gapless.chains.opening import open_sink
from gapless.lanes import Lane, in_lane
from gapless.sinks import Sink
from gapless.sinks.postgres import PostgresSink
from gapless.sinks.postgres.database import CONNECTIONS
from gapless.sinks.threaded import ThreadedSink
from gapless.sinks.write_turns import turn_to_write
from tests.conformance.sink.conftest import KINDS, target_of
from tests.conformance.sink.stage import batch, ranges
from tests.waiting import eventually


class Occupied(NamedTuple):
    waiting: Callable[[], int]
    free_one: Callable[[], Awaitable[None]]  # of its threads or connections


@asynccontextmanager
async def occupied(sink: Sink) -> AsyncIterator[Occupied]:
    """A sink all of whose threads or connections are in use."""
    if isinstance(sink, PostgresSink):
        connections = sink._database._connections
        async with AsyncExitStack() as rest, AsyncExitStack() as one:
            for at in range(CONNECTIONS):
                await (rest if at else one).enter_async_context(connections.lend())
            yield Occupied(lambda: len(connections._free._waiting), one.aclose)
        return
    assert isinstance(sink, ThreadedSink)
    thread, leave = sink._thread, threading.Event()
    busy = asyncio.create_task(thread.run(leave.wait))

    async def free() -> None:
        leave.set()
        await busy

    await asyncio.sleep(0)
    try:
        yield Occupied(lambda: len(thread._calls.waiting()), free)
    finally:
        leave.set()


async def test_a_priority_write_overtakes_the_ordinary_ones_that_wait(sink: Sink) -> None:
    await sink.write(batch(0, 4), 1)
    order = list[int]()

    async def write(first: int) -> None:
        await sink.write(batch(first, first + 4), 1)
        order.append(first)

    async with occupied(sink) as it:
        writes = [asyncio.create_task(write(first)) for first in (5, 10, 15)]
        await eventually(lambda: it.waiting() == 3)
        with in_lane(Lane.PRIORITY):
            writes.append(asyncio.create_task(write(30)))
        await eventually(lambda: it.waiting() == 4)
        await it.free_one()
        await asyncio.gather(*writes)
    assert order[0] == 30
    assert len(order) == 4
    assert await ranges(sink) == [(0, 19, 1), (30, 34, 1)]


@pytest.mark.parametrize("kind", KINDS)
async def test_sinks_on_the_same_file_take_turns_by_lane(
    request: pytest.FixtureRequest, kind: str
) -> None:
    """Every backfill may have its own sink object: what waits for the file is ordered, too."""
    target, order = target_of(request, kind), list[int]()

    async def write(sink: Sink, first: int) -> None:
        await sink.write(batch(first, first + 4), 1)
        order.append(first)

    async with AsyncExitStack() as stack:
        sinks = [await stack.enter_async_context(await open_sink(target)) for _ in range(4)]
        await sinks[0].write(batch(0, 4), 1)
        turn = turn_to_write(Path(target))
        with turn:
            writes = []
            for at, (sink, first) in enumerate(zip(sinks, (5, 10, 15, 30), strict=True), 1):
                with in_lane(Lane.PRIORITY if first == 30 else Lane.ORDINARY):
                    writes.append(asyncio.create_task(write(sink, first)))
                await eventually(lambda at=at: len(turn._waiting) == at)  # type: ignore[misc]
        await asyncio.gather(*writes)
    assert order[0] == 30
    assert sorted(order) == [5, 10, 15, 30]


async def test_a_sink_is_closed_after_all_writes_that_wait_for_it(target: str) -> None:
    sink = await open_sink(target)
    await sink.write(batch(0, 4), 1)
    async with occupied(sink) as it:
        writing = asyncio.create_task(sink.write(batch(5, 9), 1))
        await eventually(lambda: it.waiting() == 1)
        with in_lane(Lane.PRIORITY):
            closing = asyncio.create_task(sink.close())
        await eventually(lambda: it.waiting() == 2)
        await it.free_one()
        await writing
    await closing
    async with await open_sink(target) as again:
        assert await ranges(again) == [(0, 9, 1)]
