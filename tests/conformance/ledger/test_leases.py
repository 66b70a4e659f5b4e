"""What the holder of a lease may do, and nobody else."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from gapless.core.chunk import Status
from gapless.ledger import Ledger
from gapless.ledger.records import Claim
from tests.support import (
    NOON,
    Clock,
    beat,
    claim,
    claim_one,
    complete,
    create,
    done,
    fail,
    statuses,
)


async def test_fences_rise_over_the_whole_ledger_and_never_repeat(
    ledger: Ledger, other: Ledger, clock: Clock
) -> None:
    for name in ("a", "b"):
        await create(ledger, name, partitions=20, max_concurrent_runs=5)
    highest = 0
    for turn in range(12):
        claims = await claim((ledger, other)[turn % 2], 2)
        fences = sorted(each.fence for each in claims)
        assert len(set(fences)) == len(fences)
        assert fences[0] > highest
        highest = fences[-1]
        if turn % 3 == 0:
            await complete(ledger, claims[0])
        elif turn % 3 == 1:
            await fail(ledger, claims[0])
        else:
            await ledger.release(claims[0], done())
        clock.now += 31


async def test_a_heartbeat_extends_the_lease_and_stores_progress(
    ledger: Ledger, clock: Clock
) -> None:
    await create(ledger, partitions=10, chunk_size=10)
    mine = await claim_one(ledger)
    clock.now += 10
    assert await beat(ledger, mine, done(4, (1, 2))) == "go on"
    (row,) = await ledger.chunks("bf")
    assert row.due == NOON + 10 + 60
    assert (row.progress.last_processed, list(row.progress.holes)) == (4, [1, 2])
    assert row.progress_pct == 30


async def test_progress_never_goes_backwards(ledger: Ledger) -> None:
    await create(ledger, partitions=10, chunk_size=10)
    mine = await claim_one(ledger)
    for reported in (None, 0, 4, 2, None, 5, 1):
        await beat(ledger, mine, done(reported))
    (row,) = await ledger.chunks("bf")
    assert row.progress.last_processed == 5


@pytest.mark.parametrize("reported", [None, 2, 5])
async def test_an_outcome_with_less_progress_than_stored_keeps_the_stored_progress(
    ledger: Ledger, reported: int | None
) -> None:
    """A job's transaction may have committed more than its run knows of."""
    await create(ledger, partitions=20, chunk_size=10)
    failed, released = await claim(ledger, 2)
    await ledger.heartbeat([(failed, done(5, (1, 1))), (released, done(15))])
    await fail(ledger, failed, done(reported, (1, 1)))
    assert await ledger.release(released, done(reported and reported + 10))
    rows = await ledger.chunks("bf")
    assert [row.progress.last_processed for row in rows] == [5, 15]
    assert list(rows[0].progress.holes) == [1]


async def test_the_first_position_counts_as_progress(ledger: Ledger) -> None:
    await create(ledger, partitions=10, chunk_size=10)
    mine = await claim_one(ledger)
    await beat(ledger, mine, done(0))
    (row,) = await ledger.chunks("bf")
    assert row.progress.last_processed == 0


async def test_one_heartbeat_carries_the_chunks_of_many_backfills(ledger: Ledger) -> None:
    for name in ("a", "b", "c"):
        await create(ledger, name, partitions=3)
    claims = {name: await claim(ledger, 2, only=name) for name in ("a", "b", "c")}
    await ledger.pause("b")
    await ledger.cancel("c")
    await complete(ledger, claims["a"][1])
    everything = [each for held in claims.values() for each in held]
    signals = await ledger.heartbeat([(each, done()) for each in everything])
    assert {each.chunk_id: signals[each.fence] for each in everything} == {
        "a:0": "go on",
        "a:1": "lost",
        "b:0": "pause",
        "b:1": "pause",
        "c:0": "stop",
        "c:1": "stop",
    }
    assert await ledger.heartbeat([]) == {}


async def test_a_worker_that_claims_a_chunk_again_learns_that_its_former_claim_is_lost(
    ledger: Ledger, clock: Clock
) -> None:
    """Found by the simulation: the answer to the new claim renewed the former run as well."""
    await create(ledger, partitions=1, lease_seconds=60.0)
    former = await claim_one(ledger)
    clock.now += 3600
    again = await claim_one(ledger)
    signals = await ledger.heartbeat([(former, done()), (again, done())])
    assert signals == {former.fence: "lost", again.fence: "go on"}


async def test_completing_ends_the_chunk_and_counts_it(ledger: Ledger) -> None:
    await create(ledger, partitions=10, chunk_size=5)
    mine = await claim_one(ledger)
    await complete(ledger, mine)
    row = (await ledger.chunks("bf"))[0]
    assert (row.status, row.due, row.progress.last_processed) == (Status.COMPLETE, None, 4)
    backfill = await ledger.backfill("bf")
    assert (backfill.chunks.complete, backfill.progress_pct) == (1, 50)


async def test_chunks_of_many_backfills_complete_together(ledger: Ledger) -> None:
    for name in ("a", "b"):
        await create(ledger, name, partitions=3)
    claims = [*await claim(ledger, 3), *await claim(ledger, 3)]
    await complete(ledger, *claims)
    assert sorted(await ledger.settle()) == ["a", "b"]
    assert await ledger.complete([]) == set()


async def test_chunks_of_several_claims_complete_together_each_by_its_own_claim(
    ledger: Ledger,
) -> None:
    await create(ledger, partitions=4)
    one, two = await claim(ledger, 2), await claim(ledger, 2)
    exchanged = replace(two[0], claim_id=one[0].claim_id)
    assert await ledger.complete([two[1], one[0], exchanged]) == {"bf:2"}
    running, complete_ = Status.RUNNING, Status.COMPLETE
    assert await statuses(ledger) == [complete_, running, running, complete_]
    await complete(ledger, two[0], one[1])


def forged(mine: Claim) -> list[Claim]:
    return [
        replace(mine, fence=mine.fence + 1),
        replace(mine, fence=mine.fence - 1),
        replace(mine, claim_id="stolen"),
        replace(mine, chunk_index=mine.chunk_index + 1),
    ]


async def test_fence_and_claim_id_must_both_match(ledger: Ledger) -> None:
    await create(ledger, partitions=3)
    mine = await claim_one(ledger)
    for forgery in forged(mine):
        assert await beat(ledger, forgery) == "lost"
        assert await ledger.complete([forgery]) == {forgery.chunk_id}
        assert await fail(ledger, forgery) is None
        assert not await ledger.release(forgery, done())
    assert (await statuses(ledger))[:2] == [Status.RUNNING, Status.PENDING]
    await complete(ledger, mine)


async def test_a_late_completion_is_refused_among_valid_ones(ledger: Ledger, clock: Clock) -> None:
    await create(ledger, partitions=2)
    late = await claim_one(ledger)
    clock.now += 60
    heir, fresh = await claim(ledger, 2)
    assert await ledger.complete([late, fresh]) == {"bf:0"}
    assert await statuses(ledger) == [Status.RUNNING, Status.COMPLETE]
    await complete(ledger, heir)


@pytest.mark.parametrize("times", [1, 2, 3])
async def test_completing_again_with_the_same_claim_succeeds_and_counts_once(
    ledger: Ledger, times: int
) -> None:
    await create(ledger, partitions=2)
    claims = await claim(ledger, 2)
    for _ in range(times):
        await complete(ledger, *claims)
    assert (await ledger.backfill("bf")).chunks.complete == 2


async def test_failing_again_with_the_same_claim_succeeds_and_counts_once(
    ledger: Ledger,
) -> None:
    await create(ledger, partitions=1)
    mine = await claim_one(ledger)
    first = await fail(ledger, mine)
    assert first is not None
    assert await fail(ledger, mine) == first
    (row,) = await ledger.chunks("bf")
    assert row.failures.attempts == 1


async def test_abandoning_again_with_the_same_claim_counts_once(ledger: Ledger) -> None:
    await create(ledger, partitions=1)
    mine = await claim_one(ledger)
    first = await fail(ledger, mine, permanent=True)
    assert await fail(ledger, mine, permanent=True) == first
    assert (await ledger.backfill("bf")).chunks.abandoned == 1


async def test_releasing_again_with_the_same_claim_succeeds(ledger: Ledger) -> None:
    await create(ledger, partitions=1)
    mine = await claim_one(ledger)
    assert await ledger.release(mine, done())
    assert await ledger.release(mine, done())


async def test_an_outcome_cannot_be_changed_afterwards(ledger: Ledger) -> None:
    await create(ledger, partitions=2)
    completed, failed = await claim(ledger, 2)
    await complete(ledger, completed)
    assert await fail(ledger, completed) is None
    assert not await ledger.release(completed, done())
    await fail(ledger, failed)
    assert await ledger.complete([failed]) == {"bf:1"}
    assert await statuses(ledger) == [Status.COMPLETE, Status.FAILED]
