"""The worker's loops: slots and queues, leases, draining, sleeping, and jobs that it cannot run."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

import gapless
from gapless.core.backfill import State
from gapless.core.errors import LeaseLost, LibraryMismatch, UnknownJob, UsageError
from gapless.lanes import Lane, current_lane
from gapless.ledger import Ledger
from gapless.ledger.records import Survey, SurveyRequest
from gapless.runtime.catalog import RETRY_SECONDS, Catalog, import_job
from gapless.runtime.engine import Engine
from gapless.runtime.slots import parse_slots
from gapless.runtime.worker import WorkerOptions
from tests.conformance.engine.conftest import QUICK
from tests.support import Home
from tests.waiting import eventually


async def test_a_priority_slot_takes_only_priority_work_and_other_slots_take_it_first(
    home: Home,
) -> None:
    order: list[str] = []
    busy = asyncio.Event()

    @gapless.job(partitions=gapless.static(["x"]), name="head")
    async def head(chunk: gapless.Chunk, context: gapless.Context) -> None:
        order.append("head")

    @gapless.job(partitions=gapless.block_heights(), chunk_size=1, name="history")
    async def history(chunk: gapless.Chunk, context: gapless.Context) -> None:
        order.append("history")
        await busy.wait()

    slots = {"priority": 1, "backlog": 1}
    async with Engine(home.url, slots=slots, options=QUICK) as engine:
        old = await engine.backfill(history, gapless.Range("0", "9"), queue="backlog")
        await eventually(lambda: bool(order))
        # The backlog slot is taken; the priority slot is not, whatever the backlog contains.
        new = await engine.backfill(head, gapless.Range("x", "x"), queue="priority")
        assert (await new.wait()).state is State.SUCCEEDED
        assert order == ["history", "head"]
        assert (await old.progress()).chunks.running == 1
        busy.set()
        assert (await old.wait()).state is State.SUCCEEDED


async def test_runs_of_the_queue_priority_are_in_the_priority_lane(home: Home) -> None:
    seen: dict[str, Lane] = {}

    @gapless.job(partitions=gapless.static(["x"]), name="of_loop")
    async def of_loop(chunk: gapless.Chunk, context: gapless.Context) -> None:
        async def look() -> None:
            seen[chunk.backfill_id] = current_lane()

        await asyncio.create_task(look())

    @gapless.job(partitions=gapless.static(["x"]), name="of_thread")
    def of_thread(chunk: gapless.Chunk, context: gapless.BlockingContext) -> None:
        async def look() -> Lane:
            return current_lane()

        @asynccontextmanager
        async def opened() -> AsyncIterator[Lane]:
            yield await look()

        seen[chunk.backfill_id] = context.shared(chunk.backfill_id, opened)

    async with Engine(home.url, slots={"priority": 1, "backlog": 1}, options=QUICK) as engine:
        for job in (of_loop, of_thread):
            for queue in ("priority", "backlog"):
                id_ = f"{queue}-{job.name}"
                handle = await engine.backfill(job, gapless.Range("x", "x"), id=id_, queue=queue)
                assert (await handle.wait()).state is State.SUCCEEDED
    assert seen == {
        "priority-of_loop": Lane.PRIORITY,
        "backlog-of_loop": Lane.ORDINARY,
        "priority-of_thread": Lane.PRIORITY,
        "backlog-of_thread": Lane.ORDINARY,
    }


async def test_heartbeats_keep_a_lease_as_long_as_the_job_takes(engine: Engine) -> None:
    attempts: list[int] = []

    @gapless.job(partitions=gapless.block_heights(), chunk_size=1, lease_seconds=0.5)
    async def slow(chunk: gapless.Chunk, context: gapless.Context) -> None:
        attempts.append(context.attempt)
        await asyncio.sleep(1.2)

    handle = await engine.backfill(slow, gapless.Range("0", "0"))
    assert (await handle.wait()).state is State.SUCCEEDED
    assert attempts == [1]


async def test_a_job_that_blocks_the_loop_past_its_lease_is_reported(home: Home) -> None:
    errors: list[str] = []

    @gapless.job(partitions=gapless.block_heights(), chunk_size=1, lease_seconds=0.2)
    async def hog(chunk: gapless.Chunk, context: gapless.Context) -> None:
        if not errors:
            time.sleep(0.3)  # noqa: ASYNC251 - the fault under test
            try:
                context.check()
            except LeaseLost as error:
                errors.append(type(error).__name__)
                raise

    async with Engine(home.url, options=QUICK) as engine:
        handle = await engine.backfill(hog, gapless.Range("0", "0"))
        assert (await handle.wait()).state is State.SUCCEEDED
    assert errors == ["LeaseLost"]


async def test_a_worker_without_heartbeats_stops(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If a bug stops them, running chunks must not lose their leases silently."""

    async def broken(*_: object) -> None:
        raise RuntimeError("a bug")

    @gapless.job(partitions=gapless.block_heights(), chunk_size=1)
    async def slow(chunk: gapless.Chunk, context: gapless.Context) -> None:
        await asyncio.sleep(60)

    monkeypatch.setattr(Ledger, "heartbeat", broken)
    with pytest.raises(RuntimeError, match="a bug"):
        async with Engine(home.url, options=QUICK) as engine:
            await (await engine.backfill(slow, gapless.Range("0", "0"))).wait()


async def test_draining_gives_a_chunk_back_with_its_progress(home: Home) -> None:
    reached = asyncio.Event()

    @gapless.job(partitions=gapless.block_heights(), chunk_size=1000, name="count")
    async def count(chunk: gapless.Chunk, context: gapless.Context) -> None:
        for height in chunk:
            await asyncio.sleep(0)
            context.progress(height)
            if height == 20:
                reached.set()
                await asyncio.sleep(0.05)

    async with Engine(home.url, options=QUICK) as engine:
        handle = await engine.backfill(count, gapless.Range("0", "999"))
        await reached.wait()
    async with Engine(home.url, slots=None) as later:
        (chunk,) = await later.ledger.chunks(handle.id)
    assert chunk.status == "PENDING"
    assert chunk.progress.last_processed is not None
    assert chunk.progress.last_processed >= 20
    assert chunk.failures.attempts == 0


async def test_draining_interrupts_a_job_that_does_not_listen(home: Home) -> None:
    started = asyncio.Event()

    @gapless.job(partitions=gapless.block_heights(), chunk_size=1, name="deaf")
    async def deaf(chunk: gapless.Chunk, context: gapless.Context) -> None:
        started.set()
        await asyncio.sleep(60)

    async with Engine(home.url, options=QUICK) as engine:
        handle = await engine.backfill(deaf, gapless.Range("0", "0"))
        await started.wait()
    async with Engine(home.url, slots=None) as later:
        assert (await (await later.get(handle.id)).progress()).chunks.pending == 1


async def test_an_idle_worker_sleeps(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    surveys = 0
    survey = Ledger.survey

    async def counted(self: Ledger, request: SurveyRequest) -> Survey:
        nonlocal surveys
        surveys += 1
        return await survey(self, request)

    monkeypatch.setattr(Ledger, "survey", counted)
    woken = asyncio.Event()

    @gapless.job(partitions=gapless.static(["x"]))
    async def wake(chunk: gapless.Chunk, context: gapless.Context) -> None:
        woken.set()

    options = WorkerOptions(poll_seconds=30)
    async with Engine(home.url, jobs=[wake], options=options) as engine:
        await eventually(lambda: surveys > 0)
        await asyncio.sleep(0.3)
        before = surveys
        await asyncio.sleep(0.3)
        assert surveys == before  # nothing to do: it does not poll again and again
        await engine.backfill(wake, gapless.Range("x", "x"))
        await asyncio.wait_for(woken.wait(), 5)  # but a hint wakes it at once


async def has_ended(handle: gapless.BackfillHandle) -> bool:
    return (await handle.progress()).state.ended


async def test_a_chunk_in_backoff_is_taken_when_it_is_due(home: Home) -> None:
    @gapless.job(partitions=gapless.static(["x"]), retry=gapless.RetryPolicy.schedule(0.2))
    async def once(chunk: gapless.Chunk, context: gapless.Context) -> None:
        if context.attempt == 1:
            raise OSError("once")

    options = WorkerOptions(poll_seconds=30)
    async with Engine(home.url, options=options) as engine:
        handle = await engine.backfill(once, gapless.Range("x", "x"))
        await eventually(lambda: has_ended(handle), seconds=10)


async def test_catalog_drift_is_reported_and_not_absorbed(home: Home) -> None:
    tiers = {"a": {"tier": "gold"}, "b": {"tier": "iron"}}
    ran: list[object] = []

    def catalog() -> gapless.Job:
        @gapless.job(partitions=gapless.static(tiers), name="by-tier")
        async def copy(chunk: gapless.Chunk, context: gapless.Context) -> None:
            ran.extend(chunk)

        return copy

    async with Engine(home.url, slots=None) as control:
        handle = await control.backfill(catalog(), gapless.Filter({"tier": "gold"}))
    tiers |= {"b": {"tier": "gold"}, "c": {"tier": "gold"}}
    async with Engine(home.url, jobs=[catalog()], options=QUICK) as engine:
        ended = await (await engine.get(handle.id)).wait()
    assert ran == ["a"]
    assert ended.drift == "the filter would now select 2 more and 0 fewer"


async def test_a_different_version_of_a_job_is_left_alone_and_explained(home: Home) -> None:
    async def copy(chunk: gapless.Chunk, context: gapless.Context) -> None: ...

    scheme = gapless.static(["x"])
    first, second = (gapless.job(partitions=scheme, name="j", version=v)(copy) for v in (1, 2))
    async with Engine(home.url, slots=None) as control:
        handle = await control.backfill(second, gapless.Range("x", "x"))
        async with Engine(home.url, jobs=[first], options=QUICK):

            async def explained() -> bool:
                (why,) = await handle.explain()
                return why.reason == "job_unresolved" and "version 1 of it, not 2" in why.detail

            await eventually(explained)
        assert (await handle.progress()).state is State.PENDING


async def test_a_worker_with_a_different_library_is_refused(home: Home) -> None:
    async with Engine(home.url, slots=None):
        await home.run(
            "INSERT INTO workers (id, host, pid, process_started, library, slots, unresolved,"
            " started_at, seen_at)"
            " VALUES ('w', 'elsewhere', 1, '', 'SQLite 3.40', '{}', '{}', 9e9, 9e9)"
        )
        refused = Engine(home.url, options=QUICK)
        with pytest.raises(LibraryMismatch, match=r"SQLite 3\.40"):
            await refused.__aenter__()


def test_slots_are_written_as_queue_and_number() -> None:
    assert parse_slots("priority=1,backlog=13,default=1") == {
        "priority": 1,
        "backlog": 13,
        "default": 1,
    }
    assert parse_slots("8") == {"default": 8}
    for nonsense in ("", "a=", "=3", "a=b", "default=0", "a=-1"):
        with pytest.raises(UsageError):
            parse_slots(nonsense)


def test_jobs_are_imported_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "my_jobs.py").write_text(
        "import gapless\n"
        "@gapless.job(partitions=gapless.static(['x']))\n"
        "def good(chunk, context): ...\n"
        "def plain(chunk, context): ...\n"
    )
    (tmp_path / "my_broken.py").write_text("1 / 0\n")
    assert import_job("my_jobs:good").name == "my_jobs:good"
    for wrong in ("my_jobs", "my_jobs:", "my_jobs:plain", "my_jobs:none", "no_such:job"):
        with pytest.raises(UnknownJob):
            import_job(wrong)
    with pytest.raises(UnknownJob, match="ZeroDivisionError"):
        import_job("my_broken:job")
    catalog = Catalog(importing=True)
    catalog.resolve([("my_jobs:good", 1), ("no_such:job", 1)])
    assert catalog.known == (("my_jobs:good", 1),)
    assert "no_such" in catalog.unresolved["no_such:job"]


def test_a_failed_import_is_retried_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was missing may be deployed while the worker runs."""
    monkeypatch.syspath_prepend(tmp_path)
    source = "import gapless\n{}@gapless.job(partitions=gapless.static(['x']))\ndef {}(c, x): ...\n"
    now = 0.0
    catalog = Catalog(importing=True, now=lambda: now)
    wanted = [("new_jobs:first", 1), ("new_jobs:second", 1)]
    catalog.resolve(wanted)
    assert set(catalog.unresolved) == {"new_jobs:first", "new_jobs:second"}

    (tmp_path / "new_jobs.py").write_text("1 / 0\n")
    catalog.resolve(wanted)
    assert "No module named" in catalog.unresolved["new_jobs:first"]  # not at every poll
    now += RETRY_SECONDS
    catalog.resolve(wanted)
    assert "ZeroDivisionError" in catalog.unresolved["new_jobs:first"]

    (tmp_path / "new_jobs.py").write_text(source.format("# one of them\n", "first"))
    now += RETRY_SECONDS
    catalog.resolve(wanted)
    assert [name for name, _ in catalog.known] == ["new_jobs:first"]
    assert set(catalog.unresolved) == {"new_jobs:second"}


def test_a_module_whose_import_failed_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    now = 0.0
    catalog = Catalog(importing=True, now=lambda: now)
    (tmp_path / "late_jobs.py").write_text("import gapless\n")
    catalog.resolve([("late_jobs:copy", 1)])
    assert "has no `copy`" in catalog.unresolved["late_jobs:copy"]
    (tmp_path / "late_jobs.py").write_text(
        "import gapless\n@gapless.job(partitions=gapless.block_heights())\ndef copy(c, x): ...\n"
    )
    now += RETRY_SECONDS
    catalog.resolve([("late_jobs:copy", 1)])
    assert catalog.known == (("late_jobs:copy", 1),)
    assert catalog.unresolved == {}
