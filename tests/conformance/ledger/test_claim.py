"""What a claim takes, in which order, and how much."""

from __future__ import annotations

import pytest

from gapless.core.backfill import State
from gapless.core.chunk import FailureCounts, Order, Status
from gapless.core.ranges import Span
from gapless.ledger import Ledger
from tests.support import (
    NOON,
    Clock,
    beat,
    claim,
    claim_one,
    complete,
    create,
    done,
    event_types,
    fail,
    finish,
    indices,
    plan,
)


async def test_oldest_first_is_the_default(ledger: Ledger) -> None:
    await create(ledger, partitions=5)
    assert indices(await finish(ledger)) == [0, 1, 2, 3, 4]


async def test_newest_first_takes_the_highest_index_first(ledger: Ledger) -> None:
    await create(ledger, partitions=5, chunk_size=2, order=Order.NEWEST)
    claims = await finish(ledger)
    assert indices(claims) == [2, 1, 0]
    assert claims[0].span == Span(4, 4)


async def test_a_claim_contains_all_that_a_run_needs(ledger: Ledger) -> None:
    backfill = await create(ledger, partitions=10, chunk_size=4, group="wallets", lease_seconds=30)
    mine = await claim_one(ledger, owner="me", claim_id="c1")
    assert (mine.chunk_id, mine.span, mine.claim_id) == ("bf:0", Span(0, 3), "c1")
    assert (mine.failures, mine.last_processed, mine.last_failure_position) == (
        FailureCounts(),
        None,
        None,
    )
    assert not mine.holes
    shared = mine.backfill
    assert (shared.job, shared.job_version, shared.group) == ("copy", 1, "wallets")
    assert (shared.selection, shared.retry) == (backfill.selection, backfill.retry)
    (row,) = await ledger.chunks("bf", 0, 0)
    assert (row.status, row.owner, row.fence) == (Status.RUNNING, "me", mine.fence)
    assert row.due == NOON + 30


async def test_the_first_claim_starts_the_backfill(ledger: Ledger, clock: Clock) -> None:
    await create(ledger)
    clock.now += 5
    await claim_one(ledger)
    backfill = await ledger.backfill("bf")
    assert (backfill.state, backfill.lifecycle.state_version) == (State.RUNNING, 1)
    assert backfill.started_at == NOON + 5


async def test_no_more_than_max_concurrent_runs_at_once(ledger: Ledger) -> None:
    await create(ledger, max_concurrent_runs=3)
    first = await claim(ledger, 2)
    assert len(first) == 2
    assert len(await claim(ledger, 9)) == 1
    assert await claim(ledger, 9) == []
    await complete(ledger, first[0])
    assert indices(await claim(ledger, 9)) == [3]


async def test_no_more_than_the_requested_slots(ledger: Ledger) -> None:
    await create(ledger, max_concurrent_runs=100)
    assert len(await claim(ledger, 4)) == 4


async def test_a_chunk_in_backoff_takes_no_room(ledger: Ledger) -> None:
    await create(ledger, max_concurrent_runs=1)
    await fail(ledger, await claim_one(ledger))
    assert indices(await claim(ledger, 9)) == [1]


async def test_a_failed_chunk_waits_and_then_goes_before_pending_ones(
    ledger: Ledger, clock: Clock
) -> None:
    await create(ledger, max_concurrent_runs=1)
    await fail(ledger, await claim_one(ledger))
    clock.now += 119
    second = await claim_one(ledger)
    await complete(ledger, second)
    clock.now += 1
    assert indices([second, *await claim(ledger)]) == [1, 0]


async def test_due_and_pending_chunks_are_claimed_together_in_run_order(
    ledger: Ledger, clock: Clock
) -> None:
    await create(ledger, max_concurrent_runs=9)
    claims = await claim(ledger, 3)
    await fail(ledger, claims[2])
    await complete(ledger, *claims[:2])
    clock.now += 120
    assert indices(await claim(ledger, 3)) == [2, 3, 4]


async def test_nothing_is_claimed_from_an_ended_backfill(ledger: Ledger) -> None:
    await create(ledger, partitions=2)
    await finish(ledger)
    assert await claim(ledger, 9) == []


async def test_only_the_named_backfill_is_claimed(ledger: Ledger) -> None:
    for name in ("a", "b", "c"):
        await create(ledger, name, partitions=2)
    claims = await finish(ledger, only="b")
    assert {each.backfill_id for each in claims} == {"b"}
    assert await claim(ledger, only="no such") == []


@pytest.mark.parametrize("jobs", [(), (("move", 1),), (("copy", 2),), (("copy", 10),)])
async def test_a_job_unknown_to_the_worker_is_left_alone(
    ledger: Ledger, jobs: tuple[tuple[str, int], ...]
) -> None:
    await create(ledger)
    assert await claim(ledger, jobs=jobs) == []
    assert indices(await claim(ledger, jobs=(*jobs, ("copy", 1)))) == [0]


async def test_every_backfill_with_work_gets_its_turn(ledger: Ledger) -> None:
    names = {f"bf{number}" for number in range(4)}
    for name in names:
        await create(ledger, name, max_concurrent_runs=1)
    assert {(await claim_one(ledger)).backfill_id for _ in names} == names
    assert await claim(ledger) == []


async def test_a_claim_never_mixes_backfills(ledger: Ledger) -> None:
    for name in ("a", "b"):
        await create(ledger, name, partitions=3, max_concurrent_runs=9)
    first, second = await claim(ledger, 9), await claim(ledger, 9)
    assert len({each.backfill_id for each in first}) == 1
    assert indices(first) == indices(second) == [0, 1, 2]


async def test_claims_heartbeats_and_progress_leave_no_event(ledger: Ledger) -> None:
    await create(ledger, partitions=5)
    await plan(ledger, "bf", 5)
    before = await event_types(ledger)
    mine = await claim_one(ledger)
    await beat(ledger, mine, done(0))
    await ledger.release(mine, done(0))
    assert await event_types(ledger) == before
