"""Queues are views of one ledger: a slot takes from the first of its queues that has work."""

from __future__ import annotations

from gapless.ledger import Ledger
from tests.support import Clock, claim, claim_one, complete, create, fail, finish, state


async def test_a_slot_takes_only_its_own_queues(ledger: Ledger) -> None:
    await create(ledger, "live", queue="priority")
    await create(ledger, "history", queue="backlog")
    claims = await finish(ledger, queues=("priority",))
    assert {(each.backfill_id, each.backfill.queue) for each in claims} == {("live", "priority")}
    assert (await state(ledger, "live"), await state(ledger, "history")) == ("SUCCEEDED", "PENDING")
    assert await claim(ledger, queues=("default",)) == []
    assert await claim(ledger, queues=()) == []


async def test_priority_goes_before_the_slots_own_queue(ledger: Ledger) -> None:
    await create(ledger, "history", queue="backlog", partitions=100)
    await create(ledger, "live", queue="priority", partitions=2)
    queues = ("priority", "backlog")
    for expected in ("live", "live", "history"):
        mine = await claim_one(ledger, queues=queues)
        assert mine.backfill_id == expected
        await complete(ledger, mine)
    await create(ledger, "live again", queue="priority", partitions=1)
    assert (await claim_one(ledger, queues=queues)).backfill_id == "live again"


async def test_a_full_queue_lets_the_next_one_through(ledger: Ledger) -> None:
    await create(ledger, "live", queue="priority", max_concurrent_runs=1)
    await create(ledger, "history", queue="backlog")
    queues = ("priority", "backlog")
    names = [(await claim_one(ledger, queues=queues)).backfill_id for _ in range(2)]
    assert names == ["live", "history"]


async def test_a_queue_whose_recovered_chunk_must_wait_lets_the_next_one_through(
    ledger: Ledger, clock: Clock
) -> None:
    await create(ledger, "live", queue="priority", partitions=1)
    await create(ledger, "history", queue="backlog", partitions=1)
    queues = ("priority", "backlog")
    for _ in range(2):
        assert (await claim_one(ledger, queues=queues)).backfill_id == "live"
        clock.now += 60
    assert (await claim_one(ledger, queues=queues)).backfill_id == "history"


async def test_paused_priority_work_does_not_block_the_rest(ledger: Ledger) -> None:
    await create(ledger, "live", queue="priority")
    await create(ledger, "history", queue="backlog")
    await ledger.pause("live")
    mine = await claim_one(ledger, queues=("priority", "backlog"))
    assert mine.backfill_id == "history"
    await fail(ledger, mine)
