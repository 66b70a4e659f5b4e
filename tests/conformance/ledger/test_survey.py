"""A survey finds what a worker would get, and keeps nobody from anything."""

from __future__ import annotations

import msgspec

from gapless.core.retry import RetryPolicy
from gapless.ledger import Ledger
from gapless.ledger.groups import Hook
from gapless.ledger.records import Progress
from tests.support import Clock, claim, claim_one, complete, create, fail, survey

HOOK = msgspec.json.encode(Hook("recalc", 1, "default", RetryPolicy())).decode()


async def test_a_queue_has_work_if_a_claim_would_get_some(ledger: Ledger) -> None:
    assert (await survey(ledger)).with_work == frozenset()
    await create(ledger, partitions=2, max_concurrent_runs=1)
    assert (await survey(ledger, "default", "backlog")).with_work == {"default"}
    assert (await survey(ledger, "backlog")).with_work == frozenset()
    mine = await claim_one(ledger)
    assert (await survey(ledger)).with_work == frozenset()  # as many as may run do
    await complete(ledger, mine)
    assert (await survey(ledger)).with_work == {"default"}
    await ledger.pause("bf")
    assert (await survey(ledger)).with_work == frozenset()
    await ledger.resume("bf")
    await ledger.pause_queue("default")
    assert (await survey(ledger)).with_work == frozenset()


async def test_only_what_the_worker_can_run_counts_as_work(ledger: Ledger) -> None:
    await create(ledger, "a", job="move")
    assert (await survey(ledger)).with_work == frozenset()
    await create(ledger, "b")
    assert (await survey(ledger)).with_work == {"default"}
    assert (await survey(ledger, only="a")).with_work == frozenset()
    assert (await survey(ledger, only="b")).with_work == {"default"}


async def test_a_chunk_that_failed_is_work_again_when_it_is_due(
    ledger: Ledger, clock: Clock
) -> None:
    await create(ledger, partitions=1)
    await fail(ledger, await claim_one(ledger))
    found = await survey(ledger)
    assert found.with_work == frozenset()
    assert found.due is not None
    clock.now += found.due
    found = await survey(ledger)
    assert found.with_work == {"default"}
    assert found.due is None  # it waits for a free run


async def test_a_survey_names_what_has_finished(ledger: Ledger) -> None:
    for name in ("a", "b"):
        await create(ledger, name, partitions=1, group=name, hook=HOOK)
        await complete(ledger, await claim_one(ledger, only=name))
    found = await survey(ledger)
    assert (sorted(found.finished), sorted(found.drained)) == (["a", "b"], ["a", "b"])
    found = await survey(ledger, backfills=("a",), groups=("b",))
    assert (found.finished, found.drained) == (["a"], ["b"])
    found = await survey(ledger, backfills=(), groups=())
    assert (found.finished, found.drained) == ([], [])


async def test_a_survey_waits_for_no_lock_and_keeps_none(ledger: Ledger, other: Ledger) -> None:
    await create(ledger)
    async with ledger.holding(await claim_one(ledger), Progress):
        assert (await survey(other)).with_work == {"default"}
    assert await claim(other)
