"""A run has one transaction at a time, which holds the chunk; how long depends on others."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from contextlib import suppress
from typing import Any

import pytest

import gapless
from gapless.core.errors import BadJob, TransientError
from gapless.runtime import run
from gapless.runtime.engine import Engine
from tests.conformance.engine.conftest import QUICK, sql
from tests.support import Home, PostgresHome, SqliteHome
from tests.waiting import eventually

ONE = gapless.Range("0", "0")
ONCE = gapless.RetryPolicy.backoff(base=0.0, max_delay=0.0, retries=0)
AT_ONCE = gapless.RetryPolicy.backoff(base=0.0, max_delay=0.0, retries=3)


async def failed(engine: Engine, job: gapless.Job) -> tuple[str, str]:
    handle = await engine.backfill(job, ONE)
    await asyncio.wait_for(handle.wait(), 30)
    (letter,) = await engine.ledger.dead(handle.id)
    return letter.error_class, letter.error_message


async def test_a_transaction_within_a_transaction_is_refused(engine: Engine) -> None:
    @gapless.job(partitions=gapless.block_heights())
    async def nests(chunk: gapless.Chunk, context: gapless.Context) -> None:
        async with context.transaction(), context.transaction():
            raise AssertionError("there must not be two")

    @gapless.job(partitions=gapless.block_heights())
    def nests_on_a_thread(chunk: gapless.Chunk, context: gapless.BlockingContext) -> None:
        with context.transaction(), context.transaction():
            raise AssertionError("there must not be two")

    for job in (nests, nests_on_a_thread):
        error_class, message = await failed(engine, job)
        assert error_class == "BadJob"
        assert message.endswith("already has an open transaction")


async def test_a_second_transaction_at_the_same_time_is_refused(engine: Engine) -> None:
    @gapless.job(partitions=gapless.block_heights())
    async def both(chunk: gapless.Chunk, context: gapless.Context) -> None:
        async def one() -> None:
            async with context.transaction() as tx:
                await tx.execute("SELECT 1")
                await asyncio.sleep(0.1)

        await asyncio.gather(one(), one())

    @gapless.job(partitions=gapless.block_heights())
    def both_on_threads(chunk: gapless.Chunk, context: gapless.BlockingContext) -> None:
        errors: list[BaseException] = []

        def one() -> None:
            try:
                with context.transaction() as tx:
                    tx.execute("SELECT 1")
                    time.sleep(0.2)
            except BadJob as error:
                errors.append(error)

        threads = [threading.Thread(target=one) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        raise errors[0]

    for job in (both, both_on_threads):
        assert (await failed(engine, job))[0] == "BadJob"


async def test_a_transaction_that_has_ended_cannot_be_used(engine: Engine) -> None:
    @gapless.job(partitions=gapless.block_heights())
    async def late(chunk: gapless.Chunk, context: gapless.Context) -> None:
        async with context.transaction() as tx:
            await tx.execute("SELECT 1")
        async with context.transaction():
            await tx.execute("SELECT 1")

    assert await failed(engine, late) == ("BadJob", "the transaction has ended")


async def test_a_job_that_ends_before_its_transaction_fails(engine: Engine) -> None:
    """The transaction is rolled back instead of holding the chunk forever."""
    tasks: list[asyncio.Task[None]] = []

    @gapless.job(partitions=gapless.block_heights())
    async def hasty(chunk: gapless.Chunk, context: gapless.Context) -> None:
        opened = asyncio.Event()

        async def write() -> None:
            async with context.transaction(done=0) as tx:
                await tx.execute("SELECT 1")
                opened.set()
                await asyncio.sleep(3600)

        tasks.append(asyncio.create_task(write()))
        await opened.wait()

    message = "the job ended with an open transaction"
    assert await failed(engine, hasty) == ("BadJob", message)
    for task in tasks:
        task.cancel()
        await asyncio.wait([task])


async def test_after_a_refusal_the_run_can_still_have_a_transaction(engine: Engine) -> None:
    @gapless.job(partitions=gapless.block_heights())
    async def again(chunk: gapless.Chunk, context: gapless.Context) -> None:
        async with context.transaction() as tx:
            with pytest.raises(BadJob):
                async with context.transaction():
                    pass
            await tx.execute("SELECT 1")
        async with context.transaction(done=0) as tx:
            await tx.execute("SELECT 1")

    handle = await engine.backfill(again, ONE)
    assert (await asyncio.wait_for(handle.wait(), 30)).state == "SUCCEEDED"


@pytest.mark.parametrize("on_thread", [False, True])
async def test_on_postgresql_the_locked_row_holds_the_lease(
    postgres_home: PostgresHome, on_thread: bool
) -> None:
    """A statement outlasts several leases, while another worker keeps looking for chunks."""
    runs: Counter[str] = Counter()

    def thread(chunk: gapless.Chunk, context: gapless.BlockingContext) -> None:
        runs[chunk.id] += 1
        with context.transaction(done=0) as tx:
            tx.execute("INSERT INTO effects VALUES (1)")
            tx.execute("SELECT pg_sleep(2.5)")

    async def task(chunk: gapless.Chunk, context: gapless.Context) -> None:
        runs[chunk.id] += 1
        async with context.transaction(done=0) as tx:
            await tx.execute("INSERT INTO effects VALUES (1)")
            await tx.execute("SELECT pg_sleep(2.5)")

    declare = gapless.job(partitions=gapless.block_heights(), lease_seconds=0.5, name="slow")
    job = declare(thread if on_thread else task)
    async with (
        Engine(postgres_home.url, slots=1, options=QUICK) as first,
        Engine(postgres_home.url, slots=1, jobs=[job], options=QUICK) as second,
    ):
        await sql(first, "DROP TABLE IF EXISTS effects")
        await sql(first, "CREATE TABLE effects (x BIGINT)")
        handle = await first.backfill(job, ONE)
        ended = await asyncio.wait_for(handle.wait(), 60)
        assert ended.state == "SUCCEEDED"
        assert [tuple(row) for row in await sql(second, "SELECT x FROM effects")] == [(1,)]
        assert list(runs.values()) == [1]
        assert await first.ledger.attempts(handle.id, 0) == []
        assert await first.ledger.check() == []


async def test_on_postgresql_the_timeouts_of_the_ledger_do_not_apply_to_jobs(
    postgres_home: PostgresHome,
) -> None:
    await postgres_home.script("ALTER ROLE postgres SET statement_timeout = '300ms'")
    try:

        @gapless.job(partitions=gapless.block_heights(), retry=ONCE)
        async def slow(chunk: gapless.Chunk, context: gapless.Context) -> None:
            async with context.transaction() as tx:
                await tx.execute("SELECT pg_sleep(1)")

        async with Engine(postgres_home.url, options=QUICK) as engine:
            handle = await engine.backfill(slow, ONE)
            assert (await asyncio.wait_for(handle.wait(), 30)).state == "SUCCEEDED"
    finally:
        await postgres_home.script("ALTER ROLE postgres RESET statement_timeout")


@pytest.mark.parametrize("on_thread", [False, True])
async def test_on_postgresql_a_run_whose_time_is_up_releases_its_row(
    postgres_home: PostgresHome, on_thread: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "INTERRUPT_GRACE", 0.2)

    def thread(chunk: gapless.Chunk, context: gapless.BlockingContext) -> None:
        with context.transaction() as tx:
            tx.execute("SELECT pg_sleep(60)")

    async def task(chunk: gapless.Chunk, context: gapless.Context) -> None:
        async with context.transaction() as tx:
            await tx.execute("SELECT pg_sleep(60)")

    declare = gapless.job(partitions=gapless.block_heights(), retry=ONCE, timeout=0.5)
    async with Engine(postgres_home.url, options=QUICK) as engine:
        job = declare(thread if on_thread else task)
        assert (await failed(engine, job))[0] == "RunTimeout"
        assert engine.worker is not None
        await eventually(lambda: engine.worker is not None and engine.worker.orphans == 0)


async def test_on_postgresql_a_cancel_reaches_a_run_in_its_transaction(
    postgres_home: PostgresHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "CANCEL_GRACE", 0.2)
    started = asyncio.Event()

    @gapless.job(partitions=gapless.block_heights(), lease_seconds=0.5)
    async def slow(chunk: gapless.Chunk, context: gapless.Context) -> None:
        async with context.transaction() as tx:
            started.set()
            await tx.execute("SELECT pg_sleep(60)")

    async with Engine(postgres_home.url, options=QUICK) as engine:
        handle = await engine.backfill(slow, ONE)
        await started.wait()
        await asyncio.sleep(1)  # its lease has expired by now; nobody else may end the row
        assert (await handle.cancel()).state == "RUNNING"
        assert (await asyncio.wait_for(handle.wait(), 30)).state == "CANCELLED"


@pytest.mark.parametrize("on_thread", [False, True])
async def test_on_sqlite_a_long_transaction_is_rolled_back_so_that_others_can_write(
    sqlite_home: SqliteHome, on_thread: bool
) -> None:
    """A quarter of the lease has passed, during which nobody else could write."""
    errors: list[str] = []

    def slow_statement(attempt: int) -> str:
        if attempt > 1:
            return "SELECT 1"
        return (
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1000000000)"
            " SELECT count(*) FROM n"
        )

    def thread(chunk: gapless.Chunk, context: gapless.BlockingContext) -> None:
        try:
            with context.transaction(done=0) as tx:
                tx.execute("INSERT INTO effects VALUES (1)")
                tx.execute(slow_statement(context.attempt))
        except TransientError as error:
            errors.append(str(error))
            raise

    async def task(chunk: gapless.Chunk, context: gapless.Context) -> None:
        try:
            async with context.transaction(done=0) as tx:
                await tx.execute("INSERT INTO effects VALUES (1)")
                await tx.execute(slow_statement(context.attempt))
        except TransientError as error:
            errors.append(str(error))
            raise

    declare = gapless.job(partitions=gapless.block_heights(), lease_seconds=4.0, retry=AT_ONCE)
    async with Engine(sqlite_home.url, options=QUICK) as engine:
        await sql(engine, "CREATE TABLE effects (x BIGINT)")
        handle = await engine.backfill(declare(thread if on_thread else task), ONE)
        assert (await asyncio.wait_for(handle.wait(), 60)).state == "SUCCEEDED"
        assert errors == ["the transaction was rolled back: it was still open after 1 s"]
        assert [tuple(row) for row in await sql(engine, "SELECT x FROM effects")] == [(1,)]


async def test_on_sqlite_others_can_write_while_a_job_idles_in_its_transaction(
    sqlite_home: SqliteHome,
) -> None:
    opened, go_on = asyncio.Event(), asyncio.Event()

    @gapless.job(partitions=gapless.block_heights(), lease_seconds=4.0, retry=ONCE, name="dawdles")
    async def dawdles(chunk: gapless.Chunk, context: gapless.Context) -> None:
        async with context.transaction(done=0) as tx:
            await tx.execute("SELECT 1")
            opened.set()
            await go_on.wait()

    @gapless.job(partitions=gapless.block_heights(), name="other")
    async def other(chunk: gapless.Chunk, context: gapless.Context) -> None: ...

    async with Engine(sqlite_home.url, options=QUICK) as engine:
        handle = await engine.backfill(dawdles, ONE)
        await opened.wait()
        beside = await engine.backfill(other, ONE)
        assert (await asyncio.wait_for(beside.wait(), 30)).state == "SUCCEEDED"
        go_on.set()
        await asyncio.wait_for(handle.wait(), 30)
        (letter,) = await engine.ledger.dead(handle.id)
        assert letter.error_class == "TransientError"


async def test_a_transaction_may_fail_without_changing_the_lease(home: Home) -> None:
    runs: list[Any] = []

    @gapless.job(partitions=gapless.block_heights(), lease_seconds=0.6)
    async def careful(chunk: gapless.Chunk, context: gapless.Context) -> None:
        runs.append(context.attempt)
        with suppress(ZeroDivisionError):
            async with context.transaction() as tx:
                await tx.execute("SELECT 1")
                raise ZeroDivisionError
        await asyncio.sleep(1.2)
        context.check()

    async with Engine(home.url, options=QUICK) as engine:
        handle = await engine.backfill(careful, ONE)
        assert (await asyncio.wait_for(handle.wait(), 30)).state == "SUCCEEDED"
    assert runs == [1]


@pytest.mark.parametrize(
    "statement",
    ["COMMIT", " -- done\n rollback", "/* so */ END;", "BEGIN", "; ABORT", "START TRANSACTION"],
)
async def test_a_job_may_not_end_its_transaction_with_sql(engine: Engine, statement: str) -> None:
    @gapless.job(partitions=gapless.block_heights(), retry=ONCE)
    async def ending(chunk: gapless.Chunk, context: gapless.Context) -> None:
        async with context.transaction(done=chunk.last) as tx:
            await tx.execute("SAVEPOINT here")
            await tx.execute("ROLLBACK TO SAVEPOINT here")
            await tx.execute(statement)

    handle = await engine.backfill(ending, ONE)
    assert (await asyncio.wait_for(handle.wait(), 30)).state == "FAILED"
    (letter,) = await engine.ledger.dead(handle.id)
    assert letter.error_message == "a job's SQL may not begin or end a transaction"


async def test_on_sqlite_a_transaction_that_an_error_ended_keeps_no_progress(
    sqlite_home: SqliteHome,
) -> None:
    @gapless.job(partitions=gapless.block_heights(), retry=ONCE)
    async def careless(chunk: gapless.Chunk, context: gapless.Context) -> None:
        async with context.transaction(done=chunk.last) as tx:
            await tx.execute("INSERT INTO effects VALUES (0)")
            with suppress(Exception):
                await tx.execute("INSERT OR ROLLBACK INTO effects VALUES (-1)")

    async with Engine(sqlite_home.url, options=QUICK) as engine:
        await sqlite_home.run("CREATE TABLE effects (height INTEGER PRIMARY KEY)")
        await sqlite_home.run("INSERT INTO effects VALUES (-1)")
        handle = await engine.backfill(careless, ONE)
        assert (await asyncio.wait_for(handle.wait(), 30)).state == "FAILED"
        (letter,) = await engine.ledger.dead(handle.id)
    assert letter.error_message
    assert letter.error_message.startswith("the transaction is gone: SQLite has rolled it back")
    assert await sqlite_home.run("SELECT height FROM effects") == [(-1,)]
