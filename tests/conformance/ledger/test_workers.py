"""Which workers are live, and whose leases a starting worker may free."""

from __future__ import annotations

import pytest

from gapless.core.errors import LibraryMismatch
from gapless.ledger import Ledger
from gapless.ledger.workers import LIVE_WITHIN
from gapless.system import Process
from tests.support import (
    NOON,
    Clock,
    Home,
    claim,
    claim_one,
    complete,
    create,
    database_of,
    survey,
)

ME = Process("here", 42, "boot-1")


async def test_a_worker_is_live_while_it_sends_heartbeats(ledger: Ledger, clock: Clock) -> None:
    await ledger.register("w1", ME, {"default": 4})
    (worker,) = await ledger.live_workers()
    assert (worker.id, worker.host, worker.pid) == ("w1", "here", 42)
    assert (worker.process_started, worker.slots) == ("boot-1", {"default": 4})
    assert (worker.library, worker.unresolved) == (database_of(ledger).library, {})
    clock.now += LIVE_WITHIN - 1
    await ledger.touch_worker("w1", {"move": "no such module"})
    clock.now += LIVE_WITHIN - 1
    (worker,) = await ledger.live_workers()
    assert worker.unresolved == {"move": "no such module"}
    assert (worker.started_at, worker.seen_at) == (NOON, NOON + LIVE_WITHIN - 1)
    clock.now += 1
    assert await ledger.live_workers() == []


async def test_a_worker_that_ends_is_gone_at_once(ledger: Ledger) -> None:
    await ledger.register("w1", ME, {})
    await ledger.end_worker("w1")
    assert await ledger.live_workers() == []


async def test_a_different_library_is_refused_while_one_is_at_work(
    ledger: Ledger, home: Home, clock: Clock
) -> None:
    await ledger.register("w1", ME, {})
    await home.run("UPDATE workers SET library = 'SQLite 3.40.1'")
    with pytest.raises(LibraryMismatch, match=r"worker `w1` \(pid 42 on here\) uses SQLite 3.40.1"):
        await ledger.register("w2", Process("there", 7, "boot-1"), {})
    clock.now += LIVE_WITHIN
    await ledger.register("w2", Process("there", 7, "boot-1"), {})


async def test_leases_of_dead_processes_of_this_host_are_freed(ledger: Ledger) -> None:
    processes = {
        "dead": Process("here", 1, "boot-1"),
        "alive": Process("here", 2, "boot-1"),
        "far": Process("there", 1, "boot-1"),
    }
    await create(ledger, partitions=9, max_concurrent_runs=9)
    for worker, process in processes.items():
        await ledger.register(worker, process, {})
        await claim(ledger, 3, owner=worker)
    assert await ledger.free_dead(ME, lambda process: process == processes["alive"]) == 3
    assert {worker.id for worker in await ledger.live_workers()} == {"alive", "far"}
    taken = await claim(ledger, 9, owner="new")
    assert sorted(each.chunk_index for each in taken) == [0, 1, 2]
    assert {each.failures.lost for each in taken} == {1}
    assert await ledger.free_dead(ME, lambda process: process == processes["alive"]) == 0


async def test_chunks_that_a_dead_worker_completed_stay_complete(ledger: Ledger) -> None:
    await create(ledger, partitions=1)
    await ledger.register("dead", ME, {})
    await complete(ledger, await claim_one(ledger, owner="dead"))
    assert await ledger.free_dead(ME, lambda _: False) == 0
    assert await claim(ledger) == []


async def test_a_worker_presumed_dead_is_live_again_after_a_heartbeat(ledger: Ledger) -> None:
    await ledger.register("w1", ME, {})
    await ledger.free_dead(ME, lambda _: False)
    assert await ledger.live_workers() == []
    await ledger.touch_worker("w1", {})
    assert len(await ledger.live_workers()) == 1


async def test_the_jobs_that_unfinished_backfills_need_are_known(ledger: Ledger) -> None:
    await create(ledger, "a", partitions=1)
    await create(ledger, "b", job="move", job_version=2)
    await create(ledger, "c", job="move", job_version=3, queue="backlog")
    await ledger.pause("b")
    assert sorted((await survey(ledger)).jobs) == [("copy", 1), ("move", 2)]
    assert (await survey(ledger, "backlog", "priority")).jobs == [("move", 3)]
    await ledger.cancel("b")
    assert (await survey(ledger)).jobs == [("copy", 1)]
