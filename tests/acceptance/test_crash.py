"""Processes are killed, suspended and cut off from their database; nothing is lost or done twice.

Every test runs real `gapless` processes on a real ledger, on SQLite and on PostgreSQL. Random
choices follow from a seed, which is printed; `GAPLESS_SEED=… pytest …` repeats it.
"""

from __future__ import annotations

import os
import random
import secrets
import signal
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from itertools import chain, count
from pathlib import Path

import pytest

from gapless.core.backfill import State
from gapless.core.chunk import FailureCounts, Status
from gapless.runtime.job import Job
from tests.acceptance import crash_jobs as jobs
from tests.acceptance.chaos import INTERRUPTED, Plan, Storm
from tests.acceptance.fleet import Fleet, until
from tests.acceptance.stage import Stage, staged
from tests.servers import PostgresConfig, PostgresServer
from tests.support import Home, PostgresHome, SqliteHome

pytestmark = pytest.mark.timeout(300)  # chaos takes 15 s, but the machine may be busy

_serials = count(1)


@pytest.fixture(scope="module")
def durable_postgres() -> Iterator[PostgresServer]:
    """A server for this module: it is crashed, and what it committed must survive."""
    with PostgresServer(PostgresConfig(fsync=True)) as server:
        yield server


@pytest.fixture
def postgres_home(durable_postgres: PostgresServer) -> Iterator[PostgresHome]:
    name = f"crash_{next(_serials)}"
    durable_postgres.create_database(name)
    yield PostgresHome(durable_postgres.url(name))
    durable_postgres.drop_database(name)


@pytest.fixture
def sqlite_home(tmp_path: Path) -> SqliteHome:
    return SqliteHome(tmp_path / "ledger.db")


@pytest.fixture(params=["sqlite", "postgres"])
def home(request: pytest.FixtureRequest) -> Home:
    place: Home = request.getfixturevalue(f"{request.param}_home")
    return place


@pytest.fixture
async def stage(home: Home) -> AsyncIterator[Stage]:
    async with staged(home) as stage:
        yield stage


@pytest.fixture
async def fleet(stage: Stage, home: Home, tmp_path: Path) -> AsyncIterator[Fleet]:
    """Processes on the stage's ledger, which must be correct when they are gone."""
    async with Fleet.at(home.url, tmp_path) as fleet:
        yield fleet


@pytest.fixture
def crash(request: pytest.FixtureRequest, home: Home) -> Callable[[], None] | None:
    """Crashes the database server and restarts it, if there is one."""
    if isinstance(home, SqliteHome):
        return None
    server: PostgresServer = request.getfixturevalue("durable_postgres")
    return server.restart_immediate


@pytest.fixture
def chance() -> random.Random:
    seed = os.environ.get("GAPLESS_SEED") or secrets.token_hex(4)
    print(f"GAPLESS_SEED={seed}")
    return random.Random(seed)


# Chaos


async def test_chaos_loses_nothing_and_repeats_nothing(
    fleet: Fleet, stage: Stage, chance: random.Random, crash: Callable[[], None] | None
) -> None:
    half = 600
    backfills = [
        await stage.create(job, half, max_concurrent_runs=8)
        for job in (jobs.chaos, jobs.chaos_on_thread)
    ]
    plan = Plan(workers=8, effects=2 * half, kills=6, stops=5, drains=3, crashes=2 if crash else 0)
    storm = Storm(fleet, stage, plan, chance)
    await storm.rage(crash)
    for backfill in backfills:
        await stage.ended(backfill)
    print(dict(storm.happened))

    for backfill in backfills:
        await stage.assert_exactly_once(backfill, half)
    for worker in storm.workers:
        assert await worker.drained() == 0, worker
    assert await stage.leases() == []


# Zombies


@pytest.mark.parametrize("job", [jobs.zombie, jobs.zombie_on_thread], ids=["async", "thread"])
async def test_a_zombie_can_change_nothing_and_continues_with_other_work(
    fleet: Fleet, stage: Stage, job: Job
) -> None:
    backfill = await stage.create(job, 4)
    zombie = await fleet.started_worker(slots=1)
    await fleet.flag("midway")
    zombie.stop()
    stale = await stage.chunk(backfill)
    heir = await fleet.started_worker()
    await stage.ended(backfill)
    assert await heir.drained() == 0

    fleet.raise_flag("woken")
    zombie.wake()
    assert await fleet.flag("refused") == "LeaseLost"
    chunk_id = f"{backfill}:0"
    assert await fleet.flag("refusals") == {
        "transaction": "LeaseLost",
        "heartbeat": "lost",
        "complete": [chunk_id],
        "fail": None,
        "release": False,
    }
    await zombie.says("lease_lost", chunk=chunk_id, fence=stale.fence)

    other = await stage.create(job, 40, id="other")
    await stage.ended(other)
    assert await zombie.drained() == 0
    await stage.assert_exactly_once(backfill, 4)
    await stage.assert_exactly_once(other, 40)
    by_worker = {zombie.pid: [0], heir.pid: [1, 2, 3]}
    assert await stage.heights_by_worker(backfill) == by_worker
    assert await stage.heights_by_worker(other) == {zombie.pid: list(range(40))}


async def test_a_zombie_that_was_suspended_in_a_transaction_loses_it(
    postgres_home: PostgresHome, tmp_path: Path
) -> None:
    """On SQLite it would keep everyone waiting instead, so nobody could take over."""
    async with staged(postgres_home) as stage, Fleet.at(postgres_home.url, tmp_path) as fleet:
        backfill = await stage.create(jobs.zombie_in_transaction, 8)
        zombie = await fleet.started_worker(slots=1)
        await fleet.flag("midway")
        zombie.stop()
        heir = await fleet.started_worker()
        await stage.ended(backfill)

        fleet.raise_flag("woken")
        zombie.wake()
        await zombie.says("lease_lost")
        await stage.assert_exactly_once(backfill, 8)
        assert await stage.heights_by_worker(backfill) == {heir.pid: list(range(8))}
        assert [await zombie.drained(), await heir.drained()] == [0, 0]


# Killed processes


async def test_a_new_worker_frees_the_leases_of_dead_workers_on_its_host(
    fleet: Fleet, stage: Stage
) -> None:
    backfill = await stage.create(jobs.long_lease, 50)
    killed = await fleet.started_worker()
    await fleet.flag("midway-0")
    await fleet.flag("midway-1")
    killed.kill_unseen()
    fleet.raise_flag("killed")

    heir = await fleet.started_worker()
    assert heir.freed == 2
    await stage.ended(backfill)  # long before the leases would expire
    await stage.assert_exactly_once(backfill, 50)
    done = await stage.heights_by_worker(backfill)
    assert done[killed.pid] == [0, 1, 2, 5, 6, 7]
    assert await heir.drained() == 0


async def test_a_deadly_chunk_becomes_a_dead_letter_and_the_rest_completes(
    fleet: Fleet, stage: Stage
) -> None:
    backfill = await stage.create(jobs.deadly, 50)
    workers = [fleet.worker(slots=1) for _ in range(2)]
    deaths = 0

    async def ended_under_a_supervisor() -> bool:
        nonlocal deaths
        for nth, worker in enumerate(workers):
            if not worker.running:
                assert worker.forked.returncode == -signal.SIGKILL, worker
                deaths += 1
                workers[nth] = fleet.worker(slots=1)
        return (await stage.ledger.backfill(backfill)).state.ended

    await until(ended_under_a_supervisor, "the end of the backfill")
    assert deaths == jobs.deadly.retry.lost_limit
    (letter,) = await stage.ledger.dead(backfill)
    assert (letter.chunk_index, letter.error_class, letter.lost) == (2, "worker_lost", deaths)
    assert letter.partitions == ("10 to 14",)
    done = (await stage.heights_by_worker(backfill)).values()
    assert sorted(chain(*done)) == [*range(10), *range(15, 50)]
    assert (await stage.ledger.backfill(backfill)).state is State.FAILED
    for worker in workers:
        assert await (await worker.started()).drained() == 0


# Draining


async def test_a_job_that_reports_progress_is_given_back_at_once(
    fleet: Fleet, stage: Stage
) -> None:
    backfill = await stage.create(jobs.reporting, 100)
    worker = await fleet.started_worker("--drain", "10m")
    await fleet.flag("began-0")
    assert await worker.drained() == 0
    chunk = await stage.chunk(backfill)
    assert (chunk.status, chunk.failures) == (Status.PENDING, FailureCounts())
    assert chunk.progress.last_processed == 0

    fleet.raise_flag("hurry")
    assert await fleet.worker("--until-idle").exit_code() == 0
    assert fleet.raised("began-1"), "it did not resume after its progress"
    assert (await stage.ledger.backfill(backfill)).state is State.SUCCEEDED


async def test_a_job_without_reports_finishes_within_the_drain_time(
    fleet: Fleet, stage: Stage
) -> None:
    backfill = await stage.create(jobs.quiet, 3, max_concurrent_runs=1)
    worker = await fleet.started_worker()
    await fleet.flag("midway")
    assert await worker.drained() == 0
    assert await fleet.flag("done") == [0]
    statuses = [chunk.status for chunk in await stage.ledger.chunks(backfill)]
    assert statuses == [Status.COMPLETE, Status.PENDING, Status.PENDING]


@pytest.mark.parametrize(
    ("job", "reached"),
    [(jobs.deaf, {None}), (jobs.commits_late, {1, 2})],
    ids=["deaf", "commits late"],
)
async def test_a_thread_that_does_not_listen_is_left_behind(
    fleet: Fleet, stage: Stage, job: Job, reached: set[int | None]
) -> None:
    """What it has committed is not done again. An open transaction is rolled back, unless the job
    is quicker."""
    backfill = await stage.create(job, 20, max_concurrent_runs=1)
    worker = await fleet.started_worker("--drain", "1s")
    await fleet.flag("midway")
    assert await worker.drained() == INTERRUPTED
    chunk = await stage.chunk(backfill)
    assert (chunk.status, chunk.failures) == (Status.PENDING, FailureCounts())
    assert chunk.progress.last_processed in reached

    assert await fleet.worker("--until-idle").exit_code() == 0
    await stage.assert_exactly_once(backfill, 20)


async def test_an_interrupted_foreground_run_is_finished_by_a_worker(
    fleet: Fleet, stage: Stage
) -> None:
    wanted = ("--job", jobs.calm.name, "--range", "0:149", "--id", "front")
    front = fleet.start("backfill", "start", *wanted)
    await until(lambda: stage.has_effects(30), "30 effects")
    front.send(signal.SIGINT)
    assert await front.exit_code() == INTERRUPTED, front
    assert await stage.leases() == []
    assert not (await stage.ledger.backfill("front")).state.ended

    assert await fleet.worker("--until-idle").exit_code() == 0
    await stage.assert_exactly_once("front", 150)
    assert len(await stage.heights_by_worker("front")) == 2


# A database that is down for a while


async def test_workers_survive_an_outage_of_the_database(
    durable_postgres: PostgresServer, postgres_home: PostgresHome, tmp_path: Path
) -> None:
    """No job pays for it: these backfills would halt at the first failure."""
    async with staged(postgres_home) as stage, Fleet.at(postgres_home.url, tmp_path) as fleet:
        backfills = [
            await stage.create(job, 200, retry="halt") for job in (jobs.chaos, jobs.chaos_on_thread)
        ]
        workers = [await fleet.started_worker() for _ in range(3)]
        await until(lambda: stage.has_effects(50), "50 effects")
        with down(durable_postgres):
            for worker in workers:
                await worker.says("ledger_unreachable")
        for backfill in backfills:
            await stage.ended(backfill)
            await stage.assert_exactly_once(backfill, 200)
            assert {each.failures.attempts for each in await stage.ledger.chunks(backfill)} == {0}
        assert [await worker.drained() for worker in workers] == [0, 0, 0]


@contextmanager
def down(server: PostgresServer) -> Iterator[None]:
    server.stop("immediate")
    try:
        yield
    finally:
        server.start()
