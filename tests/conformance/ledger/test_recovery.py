"""An expired lease: the claim itself takes the chunk over, with care."""

from __future__ import annotations

import pytest

from gapless.core.chunk import FailureCounts, Status
from gapless.core.errors import LeaseLost
from gapless.core.events import ChunkFailed
from gapless.core.retry import RetryPolicy
from gapless.ledger import Ledger
from tests.support import (
    NOON,
    Chance,
    Clock,
    beat,
    claim,
    claim_one,
    complete,
    create,
    done,
    fail,
    indices,
    state,
    statuses,
    survey,
)

LEASE = 60.0


async def lose(ledger: Ledger, clock: Clock) -> float:
    """Claims the only chunk as soon as possible, then vanishes; returns how long it waited."""
    waited = 0.0
    if not await claim(ledger):
        waited = (await survey(ledger)).due or 0.0
        clock.now += waited - 0.001
        assert await claim(ledger) == []
        clock.now += 0.001
        await claim_one(ledger)
    clock.now += LEASE
    return waited


async def test_a_lease_holds_until_its_last_moment(ledger: Ledger, clock: Clock) -> None:
    await create(ledger, partitions=1)
    await claim_one(ledger)
    clock.now = NOON + LEASE - 0.001
    assert await claim(ledger) == []
    clock.now = NOON + LEASE
    assert indices(await claim(ledger)) == [0]


async def test_segments_expire_after_their_own_three_minutes(ledger: Ledger, clock: Clock) -> None:
    await create(ledger, partitions=1, lease_seconds=180)
    await claim_one(ledger)
    clock.now += 179
    assert await claim(ledger) == []
    clock.now += 1
    assert indices(await claim(ledger)) == [0]


async def test_a_heartbeat_keeps_the_lease(ledger: Ledger, clock: Clock) -> None:
    await create(ledger, partitions=1)
    mine = await claim_one(ledger)
    for _ in range(5):
        clock.now += LEASE - 1
        assert await beat(ledger, mine) == "go on"
        assert await claim(ledger) == []


async def test_a_lost_chunk_resumes_after_its_progress_under_a_higher_fence(
    ledger: Ledger, clock: Clock
) -> None:
    await create(ledger, partitions=10, chunk_size=10)
    lost = await claim_one(ledger)
    await beat(ledger, lost, done(4, (2, 2)))
    clock.now += LEASE
    taken = await claim_one(ledger)
    assert taken.fence > lost.fence
    assert (taken.last_processed, list(taken.holes)) == (4, [2])


async def test_an_expired_lease_frees_its_room(ledger: Ledger, clock: Clock) -> None:
    await create(ledger, partitions=10, max_concurrent_runs=2)
    await claim(ledger, 2)
    clock.now += LEASE
    assert indices(await claim(ledger, 9)) == [0, 1]
    assert await claim(ledger, 9) == []


async def test_the_first_loss_is_retried_at_once_and_the_next_ones_later_and_later(
    ledger: Ledger, clock: Clock
) -> None:
    await create(ledger, partitions=1)
    await lose(ledger, clock)
    assert [await lose(ledger, clock) for _ in range(5)] == pytest.approx([0, 1, 2, 4, 8])


async def test_chunks_that_one_worker_lost_together_return_one_by_one(
    ledger: Ledger, clock: Clock, chance: Chance
) -> None:
    await create(ledger, partitions=3, max_concurrent_runs=3)
    for _ in range(2):
        assert len(await claim(ledger, 3)) == 3
        clock.now += LEASE
    draws = iter([0.0, 0.5, 0.9])
    chance.draw = lambda: next(draws)
    assert await claim(ledger) == []
    waits = [chunk.due - clock.now for chunk in await ledger.chunks("bf") if chunk.due]
    assert sorted(waits) == pytest.approx([1.0, 1.125, 1.225])


async def test_a_lost_chunk_whose_work_was_all_done_is_completed(
    ledger: Ledger, clock: Clock
) -> None:
    """Its worker died between the last progress and its final report, however often."""
    await create(ledger, partitions=20, chunk_size=10, retry=RetryPolicy(lost_limit=1))
    whole, part = await claim(ledger, 2)
    await beat(ledger, whole, done(9))
    await beat(ledger, part, done(18))
    clock.now += LEASE
    assert await claim(ledger) == []
    assert await statuses(ledger) == [Status.COMPLETE, Status.ABANDONED]
    counts = (await ledger.backfill("bf")).chunks
    assert (counts.complete, counts.abandoned) == (1, 1)
    assert [type(event).__name__ for event, _ in (await ledger.events("bf"))[-3:]] == [
        "ChunkEnded", "ChunkFailed", "ChunkEnded",
    ]  # fmt: skip
    assert await ledger.complete([whole]) == set()  # it was only suspended, and agrees


async def test_a_lost_chunk_with_holes_is_not_completed(ledger: Ledger, clock: Clock) -> None:
    await create(ledger, partitions=10, chunk_size=10)
    await beat(ledger, await claim_one(ledger), done(9, (4, 4)))
    clock.now += LEASE
    assert list((await claim_one(ledger)).holes) == [4]


async def test_ten_losses_without_progress_make_a_dead_letter(ledger: Ledger, clock: Clock) -> None:
    await create(ledger, partitions=1)
    for _ in range(9):
        await lose(ledger, clock)
    assert not await ledger.dead()
    await lose(ledger, clock)
    assert await claim(ledger) == []
    (letter,) = await ledger.dead("bf")
    assert (letter.lost, letter.error_class, letter.chunk_id) == (10, "worker_lost", "bf:0")
    assert await ledger.settle() == ["bf"]
    assert await state(ledger) == "FAILED"


async def test_the_policy_sets_the_limit_of_losses(ledger: Ledger, clock: Clock) -> None:
    await create(ledger, partitions=1, retry=RetryPolicy(lost_limit=2))
    await lose(ledger, clock)
    await lose(ledger, clock)
    assert await claim(ledger) == []
    assert await statuses(ledger) == [Status.ABANDONED]


async def test_unbounded_never_gives_up_on_a_lost_chunk(ledger: Ledger, clock: Clock) -> None:
    await create(ledger, partitions=1, retry=RetryPolicy.unbounded())
    waits = [await lose(ledger, clock) for _ in range(14)]
    assert waits[-4:] == pytest.approx([256, 300, 300, 300])
    assert not await ledger.dead()


async def test_progress_resets_the_count_of_losses(ledger: Ledger, clock: Clock) -> None:
    await create(ledger, partitions=10, chunk_size=10)
    for _ in range(9):
        await lose(ledger, clock)
    while not (claims := await claim(ledger)):
        clock.now += 1
    assert claims[0].failures.lost == 9
    await beat(ledger, claims[0], done(3))
    clock.now += LEASE
    again = await claim_one(ledger)
    assert again.failures == FailureCounts(attempts=0, lost=1)


async def test_unchanged_progress_does_not_reset_the_count_of_losses(
    ledger: Ledger, clock: Clock
) -> None:
    await create(ledger, partitions=10, chunk_size=10)
    for expected in (1, 2, 3):
        while not (claims := await claim(ledger)):
            clock.now += 1
        await beat(ledger, claims[0], done(3))
        clock.now += LEASE
        while not (claims := await claim(ledger)):
            clock.now += 1
        assert claims[0].failures.lost == expected
        await ledger.release(claims[0], done(3))


async def test_a_failure_of_the_job_resets_the_count_of_losses(
    ledger: Ledger, clock: Clock
) -> None:
    await create(ledger, partitions=1)
    await lose(ledger, clock)
    mine = await claim_one(ledger)
    assert mine.failures == FailureCounts(attempts=0, lost=1)
    verdict = await fail(ledger, mine)
    assert verdict is not None
    assert verdict.failures == FailureCounts(attempts=1, lost=0)


async def test_a_loss_is_recorded_as_an_event(ledger: Ledger, clock: Clock) -> None:
    await create(ledger, partitions=1)
    lost = await claim_one(ledger)
    clock.now += LEASE
    await claim_one(ledger)
    event = (await ledger.events("bf"))[-1][0]
    assert isinstance(event, ChunkFailed)
    assert (event.fence, event.lost, event.error_class) == (lost.fence, 1, "worker_lost")


async def test_the_old_holder_can_no_longer_write_anything(ledger: Ledger, clock: Clock) -> None:
    await create(ledger, partitions=10, chunk_size=10)
    zombie = await claim_one(ledger)
    clock.now += LEASE
    heir = await claim_one(ledger)
    assert await beat(ledger, zombie, done(8)) == "lost"
    assert await ledger.complete([zombie]) == {"bf:0"}
    assert await fail(ledger, zombie) is None
    assert await ledger.release(zombie, done(8)) is False
    with pytest.raises(LeaseLost, match="`bf:0` is no longer leased"):
        async with ledger.holding(zombie, done):
            raise AssertionError("the transaction must not begin")
    (row,) = await ledger.chunks("bf")
    assert (row.fence, row.progress.last_processed) == (heir.fence, None)
    await complete(ledger, heir)
