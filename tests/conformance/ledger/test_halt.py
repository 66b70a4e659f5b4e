"""The policy `halt`: after the first permanent error, active chunks end and nothing new starts."""

from __future__ import annotations

import pytest

from gapless.core.backfill import State
from gapless.core.chunk import Order, Status
from gapless.core.errors import WrongState
from gapless.core.ranges import RangeSet
from gapless.core.retry import RetryPolicy
from gapless.ledger import Ledger
from tests.support import (
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
    state,
    statuses,
)


async def test_the_first_error_cancels_what_has_not_started(ledger: Ledger) -> None:
    await create(ledger, partitions=5, retry=RetryPolicy.halt())
    first, active = await claim(ledger, 2)
    verdict = await fail(ledger, first)
    assert verdict is not None
    assert verdict.status is Status.ABANDONED
    assert await statuses(ledger) == [
        Status.ABANDONED,
        Status.RUNNING,
        Status.CANCELLED,
        Status.CANCELLED,
        Status.CANCELLED,
    ]
    assert await claim(ledger) == []
    assert await beat(ledger, active) == "go on"
    assert await ledger.settle() == []
    await complete(ledger, active)
    assert await ledger.settle() == ["bf"]
    backfill = await ledger.backfill("bf")
    assert backfill.state is State.FAILED
    assert backfill.error == "Boom: it broke (chunk 0, partitions 100)"


async def test_a_second_error_while_halting_changes_nothing_more(ledger: Ledger) -> None:
    await create(ledger, partitions=5, retry=RetryPolicy.halt())
    for each in await claim(ledger, 2):
        await fail(ledger, each)
    assert (await event_types(ledger)).count("BackfillStopRequested") == 1
    assert await ledger.settle() == ["bf"]


async def test_failing_again_after_a_lost_reply_halts_once(ledger: Ledger) -> None:
    await create(ledger, partitions=5, retry=RetryPolicy.halt())
    mine = await claim_one(ledger)
    assert await fail(ledger, mine) == await fail(ledger, mine)
    assert (await event_types(ledger)).count("BackfillStopRequested") == 1


async def test_an_error_from_a_zombie_does_not_halt(ledger: Ledger, clock: Clock) -> None:
    await create(ledger, partitions=1, retry=RetryPolicy.halt())
    zombie = await claim_one(ledger)
    clock.now += 60
    heir = await claim_one(ledger)
    assert await fail(ledger, zombie) is None
    await complete(ledger, heir)
    await ledger.settle()
    assert await state(ledger) == State.SUCCEEDED


async def test_a_chunk_that_kills_its_workers_halts_too(ledger: Ledger, clock: Clock) -> None:
    policy = RetryPolicy(RetryPolicy.halt().kind, lost_limit=1)
    await create(ledger, partitions=5, retry=policy)
    await claim_one(ledger)
    clock.now += 60
    assert await claim(ledger) == []
    assert await statuses(ledger) == [Status.ABANDONED] + [Status.CANCELLED] * 4
    assert await ledger.settle() == ["bf"]
    assert await state(ledger) == State.FAILED


async def test_a_halting_backfill_can_be_cancelled_but_not_paused(ledger: Ledger) -> None:
    await create(ledger, partitions=5, retry=RetryPolicy.halt())
    first, active = await claim(ledger, 2)
    await fail(ledger, first)
    with pytest.raises(WrongState, match="is RUNNING, halting: cannot pause it") as error:
        await ledger.pause("bf")
    assert error.value.hint == "possible now: wait, cancel"
    await ledger.cancel("bf")
    await complete(ledger, active)
    await ledger.settle()
    assert await state(ledger) == State.CANCELLED


async def test_a_paused_backfill_that_halts_fails_when_resumed(ledger: Ledger) -> None:
    await create(ledger, partitions=5, retry=RetryPolicy.halt())
    mine = await claim_one(ledger)
    await ledger.pause("bf")
    await fail(ledger, mine)
    assert await ledger.settle() == []
    assert (await ledger.resume("bf")).state is State.FAILED


async def test_resuming_twice_while_a_chunk_is_active_is_not_an_error(ledger: Ledger) -> None:
    await create(ledger, partitions=5, retry=RetryPolicy.halt())
    first, active = await claim(ledger, 2)
    await ledger.pause("bf")
    await fail(ledger, first)
    assert await ledger.resume("bf") == await ledger.resume("bf")
    await complete(ledger, active)
    assert await ledger.settle() == ["bf"]


@pytest.mark.parametrize("order", Order)
async def test_the_retry_contains_exactly_what_the_halted_parent_did_not_complete(
    ledger: Ledger, order: Order
) -> None:
    await create(
        ledger,
        partitions=1003,
        chunk_size=3,
        order=order,
        retry=RetryPolicy.halt(),
        max_concurrent_runs=9,
    )
    claims = await claim(ledger, 6)
    await complete(ledger, *claims[:3])
    bad = claims[3]
    await fail(ledger, bad, done(bad.span.first + 1, (bad.span.first, bad.span.first)))
    await ledger.release(claims[4], done(claims[4].span.first))
    await complete(ledger, claims[5])
    await ledger.settle()
    assert await state(ledger) == State.FAILED

    parent, child = await ledger.backfill("bf"), await ledger.retry_failed("bf", "child")
    whole = (await ledger.selection(parent.selection)).ordinals
    rest = (await ledger.selection(child.selection)).ordinals
    completed = RangeSet(
        (100 + each.span.first, 100 + each.span.last) for each in (*claims[:3], claims[5])
    )
    completed |= RangeSet.of((100 + bad.span.first + 1, 100 + bad.span.first + 1))
    completed |= RangeSet.of((100 + claims[4].span.first, 100 + claims[4].span.first))
    assert completed | rest == whole
    assert not completed & rest
    await finish(ledger)
    assert await state(ledger, "child") == State.SUCCEEDED
