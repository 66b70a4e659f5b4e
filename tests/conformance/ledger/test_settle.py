"""A backfill ends when nothing of it is left, whoever looks first, and no earlier."""

from __future__ import annotations

from gapless.core.backfill import State
from gapless.ledger import Ledger
from tests.support import Clock, claim, claim_one, complete, create, done, fail, finish, plan, state


async def test_all_complete_means_succeeded(ledger: Ledger, clock: Clock) -> None:
    await create(ledger, partitions=3)
    claims = await claim(ledger, 3)
    await complete(ledger, *claims[:2])
    assert await ledger.settle() == []
    await complete(ledger, claims[2])
    clock.now += 1
    assert await ledger.settle() == ["bf"]
    backfill = await ledger.backfill("bf")
    assert (backfill.state, backfill.ended_at) == (State.SUCCEEDED, clock.now)
    assert (backfill.progress_pct, backfill.error) == (100, None)


async def test_a_crash_between_completing_and_settling_is_harmless(
    ledger: Ledger, other: Ledger
) -> None:
    await create(ledger, partitions=1)
    await complete(ledger, await claim_one(ledger))
    assert await state(ledger) == State.RUNNING
    assert await other.settle() == ["bf"]
    assert await ledger.settle() == []


async def test_some_abandoned_means_failed_with_the_first_error(ledger: Ledger) -> None:
    await create(ledger, partitions=6, chunk_size=2)
    claims = await claim(ledger, 3)
    await fail(ledger, claims[2], permanent=True)
    await fail(ledger, claims[1], done(3, (2, 2)), permanent=True)
    assert await ledger.settle() == []
    await complete(ledger, claims[0])
    assert await ledger.settle() == ["bf"]
    backfill = await ledger.backfill("bf")
    assert backfill.state is State.FAILED
    assert backfill.error == "Boom: it broke (chunk 1, partitions 102)"


async def test_a_chunk_that_waits_for_its_retry_keeps_the_backfill_running(
    ledger: Ledger, clock: Clock
) -> None:
    await create(ledger, partitions=2)
    first, second = await claim(ledger, 2)
    await fail(ledger, first)
    await complete(ledger, second)
    clock.now += 100_000
    assert await ledger.settle() == []
    await finish(ledger)
    assert await state(ledger) == State.SUCCEEDED


async def test_unplanned_chunks_keep_the_backfill_running(ledger: Ledger) -> None:
    await create(ledger, partitions=10)
    await plan(ledger, "bf", 2)
    await complete(ledger, *await claim(ledger, 2))
    assert await ledger.settle() == []


async def test_only_the_named_backfills_are_settled(ledger: Ledger) -> None:
    for name in ("a", "b"):
        await create(ledger, name, partitions=1)
        await complete(ledger, await claim_one(ledger))
    assert await ledger.settle(["b", "no such"]) == ["b"]
    assert await ledger.settle([]) == []
    assert await ledger.settle() == ["a"]


async def test_an_expired_lease_does_not_end_a_backfill(ledger: Ledger, clock: Clock) -> None:
    await create(ledger, partitions=1)
    await claim_one(ledger)
    clock.now += 1000
    assert await ledger.settle() == []
    assert await state(ledger) == State.RUNNING


async def test_drift_is_recorded_and_withdrawn(ledger: Ledger) -> None:
    await create(ledger)
    await ledger.note_drift("bf", "2 new keys")
    assert (await ledger.backfill("bf")).drift == "2 new keys"
    await ledger.note_drift("bf", None)
    assert (await ledger.backfill("bf")).drift is None
