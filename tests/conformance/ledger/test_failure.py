"""What a failure costs: a delay by the policy, an attempt, or the end of the chunk."""

from __future__ import annotations

import pytest

from gapless.core.chunk import FailureCounts, Status
from gapless.core.events import ChunkEnded, ChunkFailed
from gapless.core.retry import DEFAULT_SCHEDULE, RetryPolicy
from gapless.ledger import Ledger
from gapless.ledger.records import MESSAGE_LIMIT, Failure, Progress
from tests.support import (
    Chance,
    Clock,
    claim,
    claim_one,
    create,
    done,
    fail,
    finish,
    state,
    statuses,
    survey,
)


async def delays(ledger: Ledger, clock: Clock, limit: int) -> list[float]:
    """How long the only chunk waits after each failure, until it is abandoned."""
    waits: list[float] = []
    while len(waits) < limit and (claims := await claim(ledger)):
        verdict = await fail(ledger, claims[0])
        assert verdict is not None
        if verdict.delay is not None:
            waits.append(verdict.delay)
            clock.now += verdict.delay - 0.001
            assert await claim(ledger) == []
            clock.now += 0.001
    return waits


async def test_backoff_doubles_from_two_minutes_and_abandons_after_five_retries(
    ledger: Ledger, clock: Clock
) -> None:
    await create(ledger, partitions=1, retry=RetryPolicy.backoff(jitter=0))
    assert await delays(ledger, clock, 99) == [120, 240, 480, 960, 1920]
    assert await statuses(ledger) == [Status.ABANDONED]
    (letter,) = await ledger.dead()
    assert letter.attempts == 6


async def test_jitter_adds_up_to_a_quarter(ledger: Ledger, chance: Chance) -> None:
    await create(ledger, partitions=2)
    first, second = await claim(ledger, 2)
    verdict = await fail(ledger, first)
    assert verdict is not None
    assert verdict.delay == 120
    chance.value = 0.8
    verdict = await fail(ledger, second)
    assert verdict is not None
    assert verdict.delay == pytest.approx(144)


async def test_unbounded_retries_every_hour_forever(ledger: Ledger, clock: Clock) -> None:
    await create(ledger, partitions=1, retry=RetryPolicy.unbounded())
    waits = await delays(ledger, clock, 12)
    assert waits[4:] == [1920] + [3600] * 7
    assert not await ledger.dead()


async def test_a_schedule_is_followed_to_its_end(ledger: Ledger, clock: Clock) -> None:
    await create(ledger, partitions=1, retry=RetryPolicy.schedule())
    assert tuple(await delays(ledger, clock, 99)) == DEFAULT_SCHEDULE
    assert await statuses(ledger) == [Status.ABANDONED]


async def test_a_permanent_error_is_not_retried(ledger: Ledger) -> None:
    await create(ledger, partitions=1)
    verdict = await fail(ledger, await claim_one(ledger), permanent=True)
    assert verdict is not None
    assert (verdict.status, verdict.delay) == (Status.ABANDONED, None)


async def test_progress_since_the_last_failure_resets_the_count(
    ledger: Ledger, clock: Clock
) -> None:
    await create(ledger, partitions=10, chunk_size=10)
    attempts = []
    for last_processed in (None, None, 3, 3, 5):
        mine = await claim_one(ledger)
        verdict = await fail(ledger, mine, done(last_processed))
        assert verdict is not None
        attempts.append(verdict.failures.attempts)
        clock.now += verdict.delay or 0
    assert attempts == [1, 2, 1, 2, 1]


async def test_progress_before_a_release_counts_at_the_next_failure(
    ledger: Ledger, clock: Clock
) -> None:
    await create(ledger, partitions=10, chunk_size=10)
    for _ in range(3):
        await fail(ledger, await claim_one(ledger))
        clock.now += 3600
    await ledger.release(await claim_one(ledger), done(2))
    verdict = await fail(ledger, await claim_one(ledger))
    assert verdict is not None
    assert verdict.failures == FailureCounts(attempts=1)


async def test_a_failure_keeps_the_progress_and_says_what_broke(ledger: Ledger) -> None:
    await create(ledger, partitions=10, chunk_size=10)
    await fail(ledger, await claim_one(ledger), done(6, (2, 3)))
    (row,) = await ledger.chunks("bf")
    assert row.status is Status.FAILED
    assert (row.progress.last_processed, list(row.progress.holes)) == (6, [2, 3])
    assert (row.error_class, row.error_message) == ("Boom", "it broke")
    assert row.progress_pct == 50


async def test_a_success_clears_the_error_but_not_the_history(ledger: Ledger, clock: Clock) -> None:
    await create(ledger, partitions=1)
    await fail(ledger, await claim_one(ledger))
    clock.now += 120
    await finish(ledger)
    (row,) = await ledger.chunks("bf")
    assert (row.error_class, row.error_message) == (None, None)
    assert await state(ledger) == "SUCCEEDED"
    kinds = [type(event) for event, _ in await ledger.events("bf")]
    assert kinds.count(ChunkFailed) == kinds.count(ChunkEnded) == 1


async def test_losing_the_ledger_counts_as_a_loss_and_not_as_a_failure_of_the_job(
    ledger: Ledger,
) -> None:
    await create(ledger, partitions=1)
    mine = await claim_one(ledger)
    failure = Failure(mine, Progress(), "LedgerUnreachable", "gone", ledger_lost=True)
    verdict = await ledger.fail(failure)
    assert verdict is not None
    assert (verdict.failures, verdict.delay) == (FailureCounts(attempts=0, lost=1), 0)


async def test_a_very_long_message_is_cut(ledger: Ledger) -> None:
    await create(ledger, partitions=1)
    mine = await claim_one(ledger)
    await ledger.fail(Failure(mine, Progress(), "Boom", "x" * 100_000))
    (row,) = await ledger.chunks("bf")
    assert row.error_message == "x" * (MESSAGE_LIMIT - 1) + "…"


async def test_a_released_chunk_can_be_claimed_at_once_and_costs_no_attempt(
    ledger: Ledger,
) -> None:
    await create(ledger, partitions=10, chunk_size=10)
    assert await ledger.release(await claim_one(ledger), done(3, (1, 1)))
    again = await claim_one(ledger)
    assert (again.failures, again.last_processed, list(again.holes)) == (FailureCounts(), 3, [1])


async def test_the_next_due_time_is_known(ledger: Ledger, clock: Clock) -> None:
    assert (await survey(ledger)).due is None
    await create(ledger, partitions=2)
    assert (await survey(ledger)).due is None
    mine = await claim_one(ledger)
    assert (await survey(ledger)).due == 60
    await fail(ledger, mine)
    clock.now += 20
    assert (await survey(ledger, "default", "other")).due == 100
    assert (await survey(ledger, "other")).due is None
    clock.now += 105
    assert (await survey(ledger)).due is None  # it waits for a free run
    clock.now -= 105
    await ledger.pause("bf")
    assert (await survey(ledger)).due is None


async def test_a_failure_names_the_worker_that_had_the_chunk(ledger: Ledger, clock: Clock) -> None:
    """Even one that was lost and could not report it."""
    await create(ledger, partitions=1)
    await fail(ledger, await claim_one(ledger, owner="failed"))
    clock.now += 3600
    await claim_one(ledger, owner="lost")
    clock.now += 3600
    await claim_one(ledger, owner="heir")
    failures = [event for event, _ in await ledger.events("bf") if isinstance(event, ChunkFailed)]
    assert [failure.worker for failure in failures] == ["failed", "lost"]
