"""What a job sees of its chunk, and what becomes of how it ends."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from typing import Any

import pytest

import gapless
from gapless.core.errors import BadSelector, LedgerError, LedgerUnreachable, Unavailable, UsageError
from gapless.core.partitions import Window
from gapless.core.ranges import RangeSet
from gapless.ledger.records import Backfill, NewChunk
from gapless.runtime.engine import Engine
from gapless.runtime.worker import WorkerOptions
from tests.conformance.engine.conftest import sql
from tests.follows import append, lead, standing
from tests.support import Home
from tests.waiting import eventually

AT_ONCE = gapless.RetryPolicy.backoff(base=0.0, max_delay=0.0, retries=2)


async def finish(engine: Engine, job: gapless.Job, selector: object, **options: object) -> Backfill:
    handle = await engine.backfill(job, selector, **options)  # type: ignore[arg-type]
    return await asyncio.wait_for(handle.wait(), 30)


async def test_an_async_job_sees_every_partition_once_and_in_order(engine: Engine) -> None:
    seen: list[list[object]] = []

    @gapless.job(partitions=gapless.block_heights())
    async def copy(chunk: gapless.Chunk, context: gapless.Context) -> None:
        seen.append(list(chunk))

    ended = await finish(engine, copy, gapless.Range("10", "34"), chunk_size=10)
    assert ended.state == "SUCCEEDED"
    assert sorted(seen) == [list(range(10, 20)), list(range(20, 30)), list(range(30, 35))]


async def test_a_job_sees_the_spec_of_its_backfill_and_so_does_the_retry(engine: Engine) -> None:
    seen: list[object] = []

    @gapless.job(partitions=gapless.block_heights())
    async def copy(chunk: gapless.Chunk, context: gapless.Context) -> None:
        seen.append(context.spec)
        if len(seen) == 1:
            raise gapless.PermanentError("bad")

    spec = {"network": "ethereum", "tables": ["blocks"]}
    ended = await finish(engine, copy, gapless.Range("0", "0"), spec=spec)
    child = await (await engine.get(ended.id)).retry_failed()
    assert (await child.wait()).state == "SUCCEEDED"
    assert seen == [spec, spec]


async def test_a_plain_job_runs_on_a_thread_of_its_own(engine: Engine) -> None:
    threads: set[str] = set()

    @gapless.job(partitions=gapless.static(["a", "b"]))
    def copy(chunk: gapless.Chunk, context: gapless.BlockingContext) -> None:
        threads.add(threading.current_thread().name)
        for key in chunk:
            context.progress(key)

    assert (await finish(engine, copy, gapless.Explicit.of(["b"]))).state == "SUCCEEDED"
    assert all(name.startswith("gapless-job") for name in threads)


async def test_time_windows_know_their_bounds(engine: Engine) -> None:
    seen: list[tuple[str, str, str]] = []

    @gapless.job(partitions=gapless.monthly("2023-11", "2024-12"))
    async def copy(chunk: gapless.Chunk, context: gapless.Context) -> None:
        seen.extend(
            (month, month.start.isoformat(), month.end.isoformat())
            for month in chunk
            if isinstance(month, Window)
        )

    await finish(engine, copy, gapless.Filter({"year": "2023"}), chunk_size=2)
    assert seen[1] == ("2023-12", "2023-12-01T00:00:00+00:00", "2024-01-01T00:00:00+00:00")


async def test_a_failed_run_goes_on_behind_its_progress(engine: Engine) -> None:
    seen: list[object] = []

    @gapless.job(partitions=gapless.block_heights(), retry=AT_ONCE)
    async def copy(chunk: gapless.Chunk, context: gapless.Context) -> None:
        for height in chunk:
            if height == 5 and context.attempt == 1:
                raise TimeoutError("once")
            seen.append(height)
            context.progress(height)

    ended = await finish(engine, copy, gapless.Range("0", "9"), chunk_size=10)
    assert ended.state == "SUCCEEDED"
    assert seen == list(range(10))


async def test_the_dead_letter_names_the_culprit_alone(engine: Engine) -> None:
    stored: list[object] = []

    @gapless.job(partitions=gapless.block_heights())
    async def copy(chunk: gapless.Chunk, context: gapless.Context) -> None:
        if 777 in chunk:
            raise gapless.PermanentError("no such block at https://node.example/v2/SECRET")
        stored.extend(chunk)

    ended = await finish(engine, copy, gapless.Range("0", "999"), chunk_size=1000)
    assert ended.state == "FAILED"
    assert stored == [*range(777), *range(778, 1000)]
    (letter,) = await engine.ledger.dead(ended.id)
    assert letter.partitions == ("777",)
    assert letter.error_message == "no such block at https://node.example/…"
    assert ended.error == f"PermanentError: {letter.error_message} (chunk 0, partitions 777)"


async def test_a_named_culprit_is_left_out_without_a_search(engine: Engine) -> None:
    calls: list[tuple[object, object]] = []
    stored: set[object] = set()

    @gapless.job(partitions=gapless.block_heights())
    async def copy(chunk: gapless.Chunk, context: gapless.Context) -> None:
        calls.append((chunk.first, chunk.last))
        for height in chunk:
            if height in (300, 777):
                raise gapless.PermanentError("bad block", partition=height)
            stored.add(height)
            context.progress(height)

    ended = await finish(engine, copy, gapless.Range("0", "999"), chunk_size=1000)
    assert calls == [(0, 999), (301, 999), (778, 999)]
    assert stored == set(range(1000)) - {300, 777}
    (letter,) = await engine.ledger.dead(ended.id)
    assert letter.partitions == ("300", "777")


async def test_what_lies_before_a_named_culprit_is_run_unless_it_is_done(engine: Engine) -> None:
    """A job that works ahead may meet the culprit first."""
    calls: list[tuple[object, object]] = []
    stored: set[object] = set()

    @gapless.job(partitions=gapless.block_heights())
    async def copy(chunk: gapless.Chunk, context: gapless.Context) -> None:
        calls.append((chunk.first, chunk.last))
        if chunk.first == 0:
            stored.update(range(10))
            context.progress(9)
        if 70 in chunk:
            raise gapless.PermanentError("bad block", partition=70)
        stored.update(chunk)

    ended = await finish(engine, copy, gapless.Range("0", "99"), chunk_size=100)
    assert calls == [(0, 99), (10, 69), (71, 99)]
    assert stored == set(range(100)) - {70}
    (letter,) = await engine.ledger.dead(ended.id)
    assert letter.partitions == ("70",)


@pytest.mark.parametrize("named", [5, 2, 10, 4711, "no height"])
async def test_a_culprit_that_is_done_or_not_of_the_chunk_is_searched_for(
    engine: Engine, named: int | str
) -> None:
    @gapless.job(partitions=gapless.block_heights())
    async def copy(chunk: gapless.Chunk, context: gapless.Context) -> None:
        for height in chunk:
            if height == 5:
                raise gapless.PermanentError("bad", partition=named)
            context.progress(height)

    ended = await finish(engine, copy, gapless.Range("0", "9"), chunk_size=10)
    (letter,) = await engine.ledger.dead(ended.id)
    assert letter.partitions == ("5",)


async def test_a_chunk_full_of_named_culprits_is_given_up_soon(engine: Engine) -> None:
    calls: list[int] = []

    @gapless.job(partitions=gapless.block_heights())
    async def copy(chunk: gapless.Chunk, context: gapless.Context) -> None:
        calls.append(len(chunk))
        raise gapless.PermanentError("bad", partition=chunk.first)

    ended = await finish(engine, copy, gapless.Range("0", "9999"), chunk_size=10_000)
    (letter,) = await engine.ledger.dead(ended.id)
    assert len(letter.missing) == 10_000
    assert len(calls) < 20


async def test_a_named_culprit_that_heals_is_tried_again_alone(engine: Engine) -> None:
    policy = gapless.RetryPolicy.unbounded(base=0.01, max_delay=0.01)
    calls: list[tuple[object, object]] = []

    @gapless.job(partitions=gapless.block_heights(), retry=policy)
    async def copy(chunk: gapless.Chunk, context: gapless.Context) -> None:
        calls.append((chunk.first, chunk.last))
        for culprit in (3, 4, 6):
            if culprit in chunk and context.attempt <= 2:
                raise gapless.PermanentError("not yet", partition=culprit)

    ended = await finish(engine, copy, gapless.Range("0", "9"), chunk_size=10)
    assert ended.state == "SUCCEEDED"
    first_run = [(0, 9), (0, 2), (4, 9), (5, 9), (5, 5), (7, 9)]
    assert calls == [*first_run, (3, 4), (4, 4), (6, 6), (3, 4), (6, 6)]


async def test_exhausted_retries_bisect_too(engine: Engine) -> None:
    calls: Counter[object] = Counter()

    @gapless.job(partitions=gapless.block_heights(), retry=AT_ONCE)
    def copy(chunk: gapless.Chunk, context: gapless.BlockingContext) -> None:
        for height in chunk:
            calls[height] += 1
            if height == 3:
                raise ValueError("always")

    ended = await finish(engine, copy, gapless.Range("0", "7"), chunk_size=8)
    assert ended.state == "FAILED"
    (letter,) = await engine.ledger.dead()
    assert letter.partitions == ("3",)
    assert letter.attempts == 3


async def test_a_chunk_that_is_bad_throughout_is_given_up_soon(engine: Engine) -> None:
    calls: list[int] = []

    @gapless.job(partitions=gapless.block_heights())
    async def copy(chunk: gapless.Chunk, context: gapless.Context) -> None:
        calls.append(len(chunk))
        raise gapless.PermanentError("all of it")

    await finish(engine, copy, gapless.Range("0", "9999"), chunk_size=10_000)
    (letter,) = await engine.ledger.dead()
    assert len(letter.missing) == 10_000
    assert len(calls) < 60


async def test_a_transient_error_amid_a_bisection_keeps_the_holes(engine: Engine) -> None:
    flaky = iter([True])

    @gapless.job(partitions=gapless.block_heights(), retry=AT_ONCE)
    async def copy(chunk: gapless.Chunk, context: gapless.Context) -> None:
        for height in chunk:
            if height == 2:
                raise gapless.PermanentError("bad")
            if height == 6 and next(flaky, False):
                raise gapless.TransientError("later")
            context.progress(height)

    ended = await finish(engine, copy, gapless.Range("0", "7"), chunk_size=8)
    assert ended.state == "FAILED"
    (letter,) = await engine.ledger.dead()
    assert letter.partitions == ("2",)
    child = await (await engine.get(ended.id)).retry_failed()
    assert (await child.progress()).partitions == 1


async def test_what_an_interrupted_run_has_left_out_is_tried_again(home: Home) -> None:
    """It was bad then; who starts the backfill again hopes that it is no longer."""
    bad, reached = [True], asyncio.Event()

    @gapless.job(partitions=gapless.block_heights(), chunk_size=10)
    async def mending(chunk: gapless.Chunk, context: gapless.Context) -> None:
        for height in chunk:
            if height == 3 and bad:
                raise gapless.PermanentError("not yet", partition=height)
            if height == 7 and bad:
                reached.set()
                await asyncio.sleep(3600)
            context.progress(height)

    async with Engine(home.url, options=WorkerOptions(drain_seconds=0.05)) as engine:
        handle = await engine.backfill(mending, gapless.Range("0", "9"))
        await reached.wait()
    bad.clear()
    async with Engine(home.url, jobs=[mending]) as engine:
        (chunk,) = await engine.ledger.chunks(handle.id)
        again = await engine.attach(mending, handle.id)
        assert (await asyncio.wait_for(again.wait(), 30)).state == "SUCCEEDED"
    assert chunk.progress.holes == RangeSet.of((3, 3))


async def test_halt_stops_at_the_first_error_and_a_child_covers_the_rest(engine: Engine) -> None:
    broken = True
    stored: list[object] = []

    @gapless.job(partitions=gapless.block_heights(), retry="halt")
    async def copy(chunk: gapless.Chunk, context: gapless.Context) -> None:
        for height in chunk:
            if height == 25 and broken:
                raise OSError("disk full")
            stored.append(height)
            context.progress(height)

    options = {"chunk_size": 10, "max_concurrent_runs": 1}
    ended = await finish(engine, copy, gapless.Range("0", "99"), **options)
    assert ended.state == "FAILED"
    assert ended.chunks.complete == 2
    broken = False
    child = await (await engine.get(ended.id)).retry_failed("again")
    assert (await child.wait()).state == "SUCCEEDED"
    assert sorted(stored, key=str) == sorted(range(100), key=str)


async def test_progress_outside_the_chunk_is_the_jobs_error(engine: Engine) -> None:
    @gapless.job(partitions=gapless.block_heights(), retry="halt")
    async def copy(chunk: gapless.Chunk, context: gapless.Context) -> None:
        context.progress(99)

    ended = await finish(engine, copy, gapless.Range("0", "99"), chunk_size=10)
    assert "`99` is not in chunk" in str(ended.error)


async def test_a_transaction_commits_effect_and_progress_as_one(engine: Engine) -> None:
    await sql(engine, "DROP TABLE IF EXISTS effects")
    await sql(engine, "CREATE TABLE effects (height BIGINT, fence BIGINT)")

    @gapless.job(partitions=gapless.block_heights(), retry=AT_ONCE)
    async def copy(chunk: gapless.Chunk, context: gapless.Context) -> None:
        for height in chunk:
            async with context.transaction(done=height) as tx:
                await tx.execute(
                    "INSERT INTO effects VALUES (:height, :fence)",
                    height=height,
                    fence=context.fence,
                )
                if height == 4 and context.attempt == 1:
                    raise TimeoutError("before the commit")

    ended = await finish(engine, copy, gapless.Range("0", "9"), chunk_size=5)
    assert ended.state == "SUCCEEDED"
    rows = await sql(engine, "SELECT height FROM effects ORDER BY height")
    assert [row[0] for row in rows] == list(range(10))


async def test_a_job_sees_the_payload_of_its_chunk_and_writes_at_its_fence(engine: Engine) -> None:
    seen: list[tuple[object, ...]] = []

    @gapless.job(partitions=gapless.block_heights())
    async def copy(chunk: gapless.Chunk, context: gapless.Context) -> None:
        seen.append((list(chunk), context.payload, context.fence, context.attempt))
        if len(seen) == 1:
            raise TimeoutError

    wanted = standing(job=copy.name, queue="default", retry=AT_ONCE, max_concurrent_runs=1)
    await engine.submit(copy, wanted)
    chunks = NewChunk(7, 8, payload="retract", draw_fence=True), NewChunk(9, 9)
    await append(engine.ledger, await lead(engine.ledger), *chunks)
    engine.wake()
    await eventually(lambda: len(seen) == 3)
    fences = [row.write_fence for row in await engine.ledger.chunks(wanted.id)]
    assert seen[:2] == [([7, 8], "retract", fences[0], attempt) for attempt in (1, 2)]
    heights, payload, fence, attempt = seen[2]
    assert (heights, payload, attempt) == ([9], None, 1)
    assert isinstance(fence, int)
    assert fence > (fences[0] or 0)


async def test_a_plain_job_has_the_same_transaction(engine: Engine) -> None:
    await sql(engine, "DROP TABLE IF EXISTS effects")
    await sql(engine, "CREATE TABLE effects (day TEXT)")

    @gapless.job(partitions=gapless.daily("2024-02-01"), retry=AT_ONCE)
    def copy(chunk: gapless.Chunk, context: gapless.BlockingContext) -> None:
        for day in chunk:
            with context.transaction(done=day) as tx:
                tx.execute("INSERT INTO effects VALUES (:day)", day=str(day))
                if context.attempt == 1:
                    raise TimeoutError("before the commit")
                assert tx.execute("SELECT count(*) FROM effects WHERE day = :day", day=str(day))

    ended = await finish(engine, copy, gapless.Range("2024-02-27", "+4"), chunk_size=4)
    assert ended.state == "SUCCEEDED"
    rows = await sql(engine, "SELECT day FROM effects ORDER BY day")
    assert [row[0] for row in rows] == ["2024-02-27", "2024-02-28", "2024-02-29", "2024-03-01"]


async def test_wrong_requests_leave_nothing_behind(engine: Engine) -> None:
    @gapless.job(partitions=gapless.block_heights(0, 100))
    async def copy(chunk: gapless.Chunk, context: gapless.Context) -> None: ...

    wrong: list[tuple[object, dict[str, object]]] = [
        (gapless.Range("5", "4"), {}),
        (gapless.Range("0", "101"), {}),
        (gapless.Range("0", "9"), {"chunk_size": 0}),
        (gapless.Range("0", "9"), {"max_concurrent_runs": 0}),
        (gapless.Range("0", "9"), {"queue": "no spaces"}),
        (gapless.Range("0", "9"), {"order": "sideways"}),
        (gapless.Range("0", "9"), {"retry": "forever"}),
        (gapless.Range("0", "9"), {"on_drained": copy}),
        (gapless.Range("0", "9"), {"on_drained": copy, "group": "g"}),
        (gapless.Range("0", "9"), {"spec": {"rpc": "https://node.example/KEY"}}),
        (gapless.Explicit.of([]), {}),
        (gapless.Filter({"a": "b"}), {}),
    ]
    for selector, options in wrong:
        with pytest.raises((UsageError, BadSelector)):
            await engine.backfill(copy, selector, **options)  # type: ignore[arg-type]
    assert await engine.ledger.backfills() == []


async def test_a_long_transaction_keeps_no_other_run_from_its_heartbeat(engine: Engine) -> None:
    attempts: Counter[object] = Counter()
    slow = asyncio.Event()

    @gapless.job(partitions=gapless.static(["long", "other"]), lease_seconds=3.0)
    async def copy(chunk: gapless.Chunk, context: gapless.Context) -> None:
        attempts[chunk.first] += 1
        if chunk.first == "long":
            async with context.transaction() as tx:
                await tx.execute("SELECT 1")
                slow.set()
                await asyncio.sleep(0.3)  # many heartbeats, and still less than a quarter of it
        else:
            await slow.wait()
            await asyncio.sleep(3.5)

    ended = await finish(engine, copy, gapless.Range("long", "other"))
    assert ended.state == "SUCCEEDED"
    assert attempts == {"long": 1, "other": 1}


async def test_unbounded_tries_a_permanent_culprit_again_and_never_abandons(
    engine: Engine,
) -> None:
    policy = gapless.RetryPolicy.unbounded(base=0.01, max_delay=0.01)
    stored: Counter[object] = Counter()
    mended = 0

    @gapless.job(partitions=gapless.block_heights(), retry=policy)
    async def copy(chunk: gapless.Chunk, context: gapless.Context) -> None:
        nonlocal mended
        for height in chunk:
            if height in (3, 9) and mended < 8:
                mended += 1
                raise gapless.PermanentError("not yet")
            async with context.transaction(done=height) as tx:
                await tx.execute("SELECT 1")
                stored[height] += 1

    ended = await finish(engine, copy, gapless.Range("0", "15"), chunk_size=16)
    assert ended.state == "SUCCEEDED"
    assert stored == dict.fromkeys(range(16), 1)


async def test_a_job_cannot_swallow_a_stop_by_accident(engine: Engine) -> None:
    started = asyncio.Event()

    @gapless.job(partitions=gapless.block_heights(), lease_seconds=0.6)
    async def stubborn(chunk: gapless.Chunk, context: gapless.Context) -> None:
        started.set()
        while True:
            try:
                context.check()
            except Exception:  # noqa: BLE001 - what careless jobs do
                raise AssertionError("a stop is no Exception") from None
            await asyncio.sleep(0.01)

    handle = await engine.backfill(stubborn, gapless.Range("0", "0"))
    await started.wait()
    await handle.cancel()
    assert (await asyncio.wait_for(handle.wait(), 20)).state == "CANCELLED"


async def test_a_transaction_outside_the_chunk_is_the_jobs_error(engine: Engine) -> None:
    @gapless.job(partitions=gapless.block_heights(), retry="halt")
    async def copy(chunk: gapless.Chunk, context: gapless.Context) -> None:
        async with context.transaction(done=99):
            pass

    ended = await finish(engine, copy, gapless.Range("0", "99"), chunk_size=10)
    assert "`99` is not in chunk" in str(ended.error)
    assert ended.chunks.complete == 0


@pytest.mark.parametrize("retry", ["halt", AT_ONCE])
@pytest.mark.parametrize("kind", [Unavailable, LedgerUnreachable, LedgerError])
async def test_nobody_searches_for_a_culprit_when_a_server_is_gone(
    engine: Engine, retry: Any, kind: type[Exception]
) -> None:
    calls: list[tuple[object, object]] = []

    @gapless.job(partitions=gapless.block_heights(), retry=retry)
    async def copy(chunk: gapless.Chunk, context: gapless.Context) -> None:
        calls.append((chunk.first, chunk.last))
        raise kind("nobody answers")

    handle = await engine.backfill(copy, gapless.Range("0", "99"), chunk_size=100)
    await eventually(lambda: len(calls) >= (1 if kind is Unavailable else 3))
    if kind is Unavailable:
        ended = await asyncio.wait_for(handle.wait(), 30)
        (letter,) = await engine.ledger.dead(ended.id)
        assert letter.partitions == ("0 to 99",)
        assert len(calls) == (1 if retry == "halt" else 3)
    else:  # the chunk is not to blame: it is tried again, even by a policy that halts
        (chunk,) = await engine.ledger.chunks(handle.id)
        assert chunk.failures.attempts == 0
        await handle.cancel(force=True)
    assert set(calls) == {(0, 99)}
