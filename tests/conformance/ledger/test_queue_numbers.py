"""The numbers of a queue: those of all its backfills, and of the slots that serve it."""

from __future__ import annotations

import pytest

from gapless.ledger import Ledger
from gapless.ledger.records import Queue
from gapless.system import Process
from tests.support import (
    NOON,
    Clock,
    claim,
    claim_one,
    complete,
    create,
    fail,
    finish,
    plan,
)


async def queue(ledger: Ledger, name: str = "default") -> Queue:
    (found,) = [each for each in await ledger.queues() if each.name == name]
    return found


async def test_an_empty_ledger_has_no_queues(ledger: Ledger) -> None:
    assert await ledger.queues() == []


async def test_every_number_of_a_queue(ledger: Ledger, clock: Clock) -> None:
    await create(ledger, partitions=1000, max_concurrent_runs=10)
    await create(ledger, "other", queue="backlog", partitions=7)
    done, dead, failed, later, _ = await claim(ledger, 5)
    await complete(ledger, done)
    await fail(ledger, dead, permanent=True)
    verdict = await fail(ledger, failed)
    assert verdict is not None
    assert verdict.delay is not None
    clock.now += 1
    await fail(ledger, later)
    assert await ledger.queues() == [
        Queue(name="backlog", pending=7, oldest_wait=1.0),
        Queue(
            name="default",
            active=1,
            pending=995,
            retry=2,
            next_retry_at=NOON + verdict.delay,
            processed=1,
            failed=3,
            dead=1,
            completed_per_minute=1.0,
            oldest_wait=1.0,
        ),
    ]


async def test_backfills_of_one_queue_are_added_up(ledger: Ledger) -> None:
    for name in ("a", "b"):
        await create(ledger, name, partitions=4, chunk_size=2)
        await complete(ledger, await claim_one(ledger, only=name))
    await create(ledger, "ended", partitions=3)
    await finish(ledger, only="ended")
    found = await queue(ledger)
    assert (found.processed, found.pending, found.active) == (5, 2, 0)


async def test_what_was_cancelled_or_never_planned_is_not_pending(ledger: Ledger) -> None:
    await create(ledger, partitions=1000)
    await claim_one(ledger)
    await ledger.cancel("bf")
    assert (await queue(ledger)).pending == 0
    assert (await queue(ledger)).active == 1
    await ledger.cancel("bf", force=True)
    assert (await queue(ledger)).active == 0


async def test_lost_workers_are_failed_runs(ledger: Ledger, clock: Clock) -> None:
    await create(ledger, partitions=1)
    await claim_one(ledger)
    clock.now += 61
    await claim_one(ledger)
    assert (await queue(ledger)).failed == 1


async def test_a_dead_letter_that_is_purged_or_retried_is_not_counted(ledger: Ledger) -> None:
    await create(ledger, partitions=3)
    for each in await claim(ledger, 3):
        await fail(ledger, each, permanent=True)
    await ledger.settle()
    assert (await queue(ledger)).dead == 3
    assert await ledger.purge("bf", [1]) == 1
    assert await ledger.purge("bf", [1]) == 0
    assert (await queue(ledger)).dead == 2
    await ledger.retry_dead("bf", "child", [0])
    assert (await queue(ledger)).dead == 1
    await ledger.retry_failed("bf", "rest")
    found = await queue(ledger)
    assert (found.dead, found.failed, found.pending) == (0, 3, 3)


class TestThroughput:
    """NOON is 20 seconds after a full minute."""

    async def complete(self, ledger: Ledger, count: int) -> None:
        for each in await claim(ledger, count):
            await complete(ledger, each)

    async def per_minute(self, ledger: Ledger) -> float:
        return (await queue(ledger)).completed_per_minute

    async def test_it_counts_the_last_minute(self, ledger: Ledger, clock: Clock) -> None:
        await create(ledger, partitions=1000, max_concurrent_runs=100)
        assert NOON % 60 == 20
        assert await self.per_minute(ledger) == 0
        await self.complete(ledger, 30)
        assert await self.per_minute(ledger) == pytest.approx(30)
        clock.now += 55  # 15 seconds after the next full minute
        assert await self.per_minute(ledger) == pytest.approx(22.5)
        await self.complete(ledger, 6)
        assert await self.per_minute(ledger) == pytest.approx(28.5)
        clock.now += 30
        assert await self.per_minute(ledger) == pytest.approx(13.5)
        clock.now += 60
        assert await self.per_minute(ledger) == pytest.approx(1.5)
        clock.now += 60
        assert await self.per_minute(ledger) == 0

    async def test_completions_after_a_break_start_from_nothing(
        self, ledger: Ledger, clock: Clock
    ) -> None:
        await create(ledger, partitions=1000, max_concurrent_runs=100)
        await self.complete(ledger, 30)
        clock.now += 600
        await self.complete(ledger, 2)
        assert await self.per_minute(ledger) == pytest.approx(2)

    async def test_a_clock_that_jumps_back_starts_from_nothing(
        self, ledger: Ledger, clock: Clock
    ) -> None:
        await create(ledger, partitions=1000, max_concurrent_runs=100)
        await self.complete(ledger, 30)
        clock.now -= 600
        assert await self.per_minute(ledger) == 0
        await self.complete(ledger, 2)
        assert await self.per_minute(ledger) == pytest.approx(2)

    async def test_an_ended_backfill_counts_too(self, ledger: Ledger) -> None:
        await create(ledger, partitions=5)
        await finish(ledger)
        assert await self.per_minute(ledger) == pytest.approx(5)


class TestOldestWait:
    async def wait(self, ledger: Ledger) -> float | None:
        return (await queue(ledger)).oldest_wait

    async def test_a_backfill_that_no_worker_takes_waits_from_its_creation(
        self, ledger: Ledger, clock: Clock
    ) -> None:
        await create(ledger)
        clock.now += 40
        await create(ledger, "newer")
        assert await self.wait(ledger) == 40

    async def test_a_planned_chunk_waits_from_its_plan(self, ledger: Ledger, clock: Clock) -> None:
        await create(ledger, partitions=600, max_concurrent_runs=1000)
        clock.now += 10
        assert len(await claim(ledger, 256)) == 256
        assert await plan(ledger, "bf", 10) == 10
        clock.now += 5
        await plan(ledger, "bf", 10)
        assert await self.wait(ledger) == 5
        await claim(ledger, 10)
        assert await self.wait(ledger) == 0

    async def test_a_failed_chunk_waits_from_when_it_is_due(
        self, ledger: Ledger, clock: Clock
    ) -> None:
        await create(ledger, partitions=1)
        verdict = await fail(ledger, await claim_one(ledger))
        assert verdict is not None
        assert verdict.delay is not None
        assert await self.wait(ledger) is None
        clock.now += verdict.delay + 9
        assert await self.wait(ledger) == pytest.approx(9)

    async def test_what_cannot_be_claimed_does_not_wait(self, ledger: Ledger, clock: Clock) -> None:
        await create(ledger, "full", max_concurrent_runs=1)
        await claim_one(ledger)
        await create(ledger, "paused")
        await ledger.pause("paused")
        clock.now += 10
        assert await self.wait(ledger) is None
        await ledger.resume("paused")
        assert await self.wait(ledger) == 10
        await ledger.pause_queue("default")
        assert await self.wait(ledger) is None


async def test_slots_of_live_workers(ledger: Ledger, clock: Clock) -> None:
    process = Process("host", 1, "then")
    await ledger.register("a", process, {"priority": 1, "backlog": 13})
    await ledger.register("b", process, {"backlog": 2, "foreground@bf": 4})
    await ledger.register("ended", process, {"backlog": 100})
    await ledger.end_worker("ended")
    assert {each.name: each.slots for each in await ledger.queues()} == {
        "backlog": 15,
        "foreground": 4,
        "priority": 1,
    }
    clock.now += 61
    assert await ledger.queues() == []
