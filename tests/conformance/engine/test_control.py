"""Controlling a backfill while it runs: pause, resume, cancel, groups, several engines."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import gapless
from gapless.core.backfill import State
from gapless.runtime.controller import BackfillOptions, request_for
from gapless.runtime.engine import BackfillHandle, Engine
from tests.conformance.engine.conftest import QUICK
from tests.support import Home
from tests.waiting import eventually


class Gate:
    """A job that signals when it has started, and waits until it is released."""

    def __init__(self) -> None:
        self.started = asyncio.Event()
        self.open = asyncio.Event()
        self.runs = 0

        @gapless.job(partitions=gapless.block_heights(), chunk_size=1, lease_seconds=0.6)
        async def wait(chunk: gapless.Chunk, context: gapless.Context) -> None:
            self.runs += 1
            self.started.set()
            while not self.open.is_set():
                await asyncio.sleep(0.01)
                context.check()

        self.job = wait


async def has_completed(handle: BackfillHandle) -> bool:
    return (await handle.progress()).chunks.complete > 0


async def test_pausing_during_the_last_chunk_then_resuming_succeeds(
    engine: Engine, remote: Engine
) -> None:
    gate = Gate()
    handle = await engine.backfill(gate.job, gapless.Range("0", "0"))
    await gate.started.wait()
    there = await remote.get(handle.id)
    assert (await there.pause()).state is State.PAUSED
    gate.open.set()
    await eventually(lambda: has_completed(there))
    assert (await there.progress()).state is State.PAUSED
    await there.resume()
    assert (await handle.wait()).state is State.SUCCEEDED


async def test_a_paused_backfill_starts_nothing_new(engine: Engine) -> None:
    gate = Gate()
    handle = await engine.backfill(gate.job, gapless.Range("0", "9"), max_concurrent_runs=1)
    await gate.started.wait()
    await handle.pause()
    gate.open.set()
    await eventually(lambda: has_completed(handle))
    for _ in range(5):
        await asyncio.sleep(QUICK.poll_seconds)
    assert gate.runs == 1
    await handle.resume()
    assert (await handle.wait()).chunks.complete == 10


async def test_a_paused_queue_starts_nothing_new_and_says_so(
    engine: Engine, remote: Engine
) -> None:
    gate = Gate()
    handle = await engine.backfill(gate.job, gapless.Range("0", "9"), max_concurrent_runs=1)
    await gate.started.wait()
    assert await remote.pause_queue("default")
    assert not await engine.is_idle()  # its running chunk may finish
    gate.open.set()
    await eventually(lambda: has_completed(handle))
    await eventually(engine.is_idle)
    for _ in range(5):
        await asyncio.sleep(QUICK.poll_seconds)
    assert gate.runs == 1
    why = await handle.explain()
    assert {(each.reason, each.detail) for each in why} == {
        ("queue_paused", "queue `default` is paused")
    }
    (queue,) = await remote.queues()
    assert (queue.processed, queue.pending, queue.slots) == (1, 9, 4)
    assert await engine.resume_queue("default")
    assert (await handle.wait()).chunks.complete == 10


async def test_cancel_reaches_a_running_job_through_its_heartbeat(
    engine: Engine, remote: Engine
) -> None:
    gate = Gate()
    handle = await engine.backfill(gate.job, gapless.Range("0", "99"))
    await gate.started.wait()
    cancelled = await (await remote.get(handle.id)).cancel()
    assert cancelled.lifecycle.stopping == "cancel"
    ended = await handle.wait()
    assert ended.state is State.CANCELLED
    assert ended.chunks.complete == 0
    assert ended.chunks.running == 0


async def test_a_forced_cancel_does_not_wait_for_the_job(engine: Engine, remote: Engine) -> None:
    gate = Gate()
    handle = await engine.backfill(gate.job, gapless.Range("0", "9"))
    await gate.started.wait()
    assert (await (await remote.get(handle.id)).cancel(force=True)).state is State.CANCELLED
    other = Gate()
    other.open.set()
    again = await engine.backfill(other.job, gapless.Range("0", "9"))
    assert (await again.wait()).state is State.SUCCEEDED  # the slots are free again


async def test_a_cancelled_backfill_in_an_hours_backoff_ends_at_once(engine: Engine) -> None:
    @gapless.job(partitions=gapless.block_heights(), retry=gapless.RetryPolicy.backoff(base=3600))
    async def fail(chunk: gapless.Chunk, context: gapless.Context) -> None:
        raise OSError("later")

    async def all_failed() -> bool:
        return (await handle.progress()).chunks.failed == 4

    handle = await engine.backfill(fail, gapless.Range("0", "3"), chunk_size=1)
    await eventually(all_failed)
    why = await handle.explain()
    assert {each.reason for each in why} == {"backoff"}
    assert (await handle.cancel()).state is State.CANCELLED


async def test_two_engines_share_one_backfill_and_run_each_chunk_once(
    engine: Engine, home: Home
) -> None:
    seen: list[int] = []

    @gapless.job(partitions=gapless.block_heights())
    async def copy(chunk: gapless.Chunk, context: gapless.Context) -> None:
        seen.extend(int(height) for height in chunk)
        await asyncio.sleep(0.001)

    async with Engine(home.url, jobs=[copy], options=QUICK):
        handle = await engine.backfill(
            copy, gapless.Range("0", "999"), chunk_size=5, max_concurrent_runs=8
        )
        ended = await handle.wait()
    assert ended.state is State.SUCCEEDED
    assert sorted(seen) == list(range(1000))
    assert await engine.ledger.check() == []


async def test_newest_first_runs_from_the_end(engine: Engine) -> None:
    seen: list[object] = []

    @gapless.job(partitions=gapless.block_heights())
    async def copy(chunk: gapless.Chunk, context: gapless.Context) -> None:
        seen.append(chunk.first)

    handle = await engine.backfill(
        copy, gapless.Range("0", "49"), chunk_size=10, order="newest", max_concurrent_runs=1
    )
    await handle.wait()
    assert seen == [40, 30, 20, 10, 0]


async def test_the_hook_of_a_drained_group_runs_once_per_epoch(engine: Engine) -> None:
    epochs: list[object] = []
    drained = asyncio.Event()

    @gapless.job(partitions=gapless.epochs())
    async def recalculate(chunk: gapless.Chunk, context: gapless.Context) -> None:
        epochs.extend(chunk)
        drained.set()

    @gapless.job(partitions=gapless.static(["a", "b", "c"]))
    async def copy(chunk: gapless.Chunk, context: gapless.Context) -> None: ...

    for nth in (1, 2):
        drained.clear()
        handle = await engine.backfill(
            copy, gapless.Range("a", "c"), group="wallets", on_drained=recalculate
        )
        await handle.wait()
        await asyncio.wait_for(drained.wait(), 20)
        assert epochs == list(range(1, nth + 1))


async def test_an_idle_engine_does_not_leave_before_a_hook_that_waits(engine: Engine) -> None:
    epochs: list[object] = []

    @gapless.job(partitions=gapless.epochs())
    async def recalculate(chunk: gapless.Chunk, context: gapless.Context) -> None:
        epochs.extend(chunk)

    @gapless.job(partitions=gapless.static(["a", "b"]))
    async def copy(chunk: gapless.Chunk, context: gapless.Context) -> None: ...

    group: BackfillOptions = {"group": "wallets", "on_drained": recalculate}
    await (await engine.backfill(copy, gapless.Range("a", "a"), **group)).wait()
    await eventually(lambda: has_run(epochs, 1))
    waiting = replace(request_for(copy, gapless.Range("a", "b"), group), quiet_seconds=3600.0)
    await engine.ledger.create(waiting)
    engine.wake()
    await (await engine.get(waiting.id)).wait()
    for _ in range(5):
        await asyncio.sleep(QUICK.poll_seconds)
    assert epochs == [1]
    assert not await engine.is_idle()
    await eventually(engine.is_idle)
    assert epochs == [1, 2]


async def has_run(epochs: list[object], count: int) -> bool:
    return len(epochs) == count


async def test_a_retry_request_creates_one_child(engine: Engine) -> None:
    @gapless.job(partitions=gapless.static(["good", "bad"]), retry="halt")
    async def copy(chunk: gapless.Chunk, context: gapless.Context) -> None:
        if "bad" in chunk:
            raise ValueError("bad")

    handle = await engine.backfill(copy, gapless.Explicit.of(["good", "bad"]))
    await handle.wait()
    first, second = await asyncio.gather(handle.retry_failed("r1"), handle.retry_failed("r1"))
    assert first.id == second.id
    child = await first.wait()
    assert child.parent_backfill_id == handle.id
    assert child.partitions == 1
    assert (await handle.retry_failed("r2")).id != first.id
