"""Concurrency: no chunk twice, no limit exceeded, no claim after a stop, nothing created twice."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from gapless.core.chunk import Order, Status
from gapless.ledger import Ledger
from gapless.ledger.claims import PLAN_AHEAD
from gapless.ledger.records import Claim
from tests.support import (
    Clock,
    claim,
    claim_one,
    complete,
    create,
    done,
    event_types,
    plan,
    state,
    statuses,
)


async def claim_at_once(ledgers: list[Ledger], chunks: int) -> list[Claim]:
    found = await asyncio.gather(*(claim(ledger, chunks) for ledger in ledgers))
    return [each for claims in found for each in claims]


async def test_no_chunk_is_claimed_twice_and_each_is_planned_once(
    ledger: Ledger, other: Ledger
) -> None:
    await create(ledger, partitions=60, max_concurrent_runs=60)
    claims: list[Claim] = []
    while len(claims) < 60:
        claims += await claim_at_once([ledger, other] * 5, 3)
    assert Counter(each.chunk_index for each in claims) == Counter(range(60))
    assert len({each.fence for each in claims}) == 60
    assert (await event_types(ledger)).count("BackfillChunkPlanned") == 60
    assert (await event_types(ledger)).count("BackfillStateChanged") == 1


@pytest.mark.parametrize("order", Order)
async def test_planning_at_once_plans_every_chunk_once(
    ledger: Ledger, other: Ledger, order: Order
) -> None:
    await create(ledger, partitions=100, order=order)
    planned = await asyncio.gather(*(plan(each, "bf", 15) for each in [ledger, other] * 5))
    assert sum(planned) == 100
    assert await statuses(ledger) == [Status.PENDING] * 100


async def test_the_limit_holds_however_many_workers_claim(ledger: Ledger, other: Ledger) -> None:
    await create(ledger, partitions=PLAN_AHEAD * 2, max_concurrent_runs=5)
    for _ in range(3):
        claims = await claim_at_once([ledger, other] * 6, 2)
        while len(claims) < 5:
            claims += await claim(ledger, 9)
        assert len(claims) == 5
        assert (await ledger.backfill("bf")).chunks.running == 5
        await complete(ledger, *claims)


async def test_an_expired_lease_is_taken_over_once(
    ledger: Ledger, other: Ledger, clock: Clock
) -> None:
    await create(ledger, partitions=1, max_concurrent_runs=9)
    lost = await claim_one(ledger)
    clock.now += 60
    claims = await claim_at_once([ledger, other] * 4, 1)
    assert [each.failures.lost for each in claims] == [1]
    assert claims[0].fence > lost.fence


async def test_the_old_and_the_new_holder_cannot_both_complete(
    ledger: Ledger, other: Ledger, clock: Clock
) -> None:
    for name in ("a", "b", "c", "d", "e"):
        await create(ledger, name, partitions=1)
        zombie = await claim_one(ledger)
        clock.now += 60
        heirs, lost = await asyncio.gather(claim(other), ledger.complete([zombie]))
        assert len(heirs) == len(lost)  # either it was taken over, or it was completed in time
        await complete(other, *heirs)
        assert (await ledger.backfill(name)).chunks.complete == 1
        await ledger.settle()


async def test_concurrent_identical_requests_create_one_backfill(
    ledger: Ledger, other: Ledger
) -> None:
    made = await asyncio.gather(*(create(each) for each in [ledger, other] * 5))
    assert len({backfill.id for backfill in made}) == len(await ledger.backfills()) == 1
    assert await event_types(ledger) == ["BackfillCreated"]


async def test_one_of_two_requests_for_one_id_wins(ledger: Ledger, other: Ledger) -> None:
    results = await asyncio.gather(
        *(create(each, partitions=n) for each, n in ((ledger, 5), (other, 6))),
        return_exceptions=True,
    )
    assert sorted(type(result).__name__ for result in results) == ["Backfill", "Conflict"]


async def test_no_claim_succeeds_after_a_pause(ledger: Ledger, other: Ledger) -> None:
    await create(ledger, partitions=1000, max_concurrent_runs=500)
    for _ in range(5):
        claims, _ = await asyncio.gather(claim_at_once([other] * 4, 2), ledger.pause("bf"))
        assert (await ledger.backfill("bf")).chunks.running == len(claims)
        assert await claim_at_once([ledger, other] * 2, 2) == []
        await complete(ledger, *claims)
        await ledger.resume("bf")


async def test_no_claim_succeeds_after_a_cancel(ledger: Ledger, other: Ledger) -> None:
    await create(ledger, partitions=20)
    claims, _ = await asyncio.gather(claim_at_once([other] * 4, 1), ledger.cancel("bf"))
    assert (await statuses(ledger)).count(Status.RUNNING) == len(claims)
    assert Status.PENDING not in await statuses(ledger)
    for each in claims:
        await ledger.release(each, done())
    await ledger.settle()
    assert await state(ledger) == "CANCELLED"


async def test_concurrent_settling_ends_a_backfill_once(ledger: Ledger, other: Ledger) -> None:
    await create(ledger, partitions=1)
    await complete(ledger, await claim_one(ledger))
    await asyncio.gather(*(each.settle() for each in [ledger, other] * 4))
    assert (await ledger.backfill("bf")).lifecycle.state_version == 2
    assert (await event_types(ledger)).count("BackfillStateChanged") == 2


async def test_many_workers_run_a_whole_backfill_once(ledger: Ledger, other: Ledger) -> None:
    await create(ledger, partitions=200, chunk_size=3, max_concurrent_runs=6)
    done_by: Counter[int] = Counter()

    async def work(mine: Ledger) -> None:
        while await state(mine) in ("PENDING", "RUNNING"):
            for each in await claim(mine, 2):
                done_by.update(range(each.span.first, each.span.last + 1))
                await complete(mine, each)
            await mine.settle()

    await asyncio.gather(*(work(each) for each in [ledger, other] * 3))
    assert done_by == Counter(range(200))
    assert await state(ledger) == "SUCCEEDED"
