"""A retry creates one new backfill with what is missing; the old one does not change."""

from __future__ import annotations

import asyncio

import pytest

from gapless.core.backfill import State
from gapless.core.chunk import Order
from gapless.core.errors import Conflict, WrongState
from gapless.core.remedies import EndBackfill
from gapless.core.selector import Selection
from gapless.ledger import Ledger
from tests.support import (
    Clock,
    claim,
    claim_one,
    complete,
    create,
    done,
    fail,
    finish,
    state,
)


async def failed_backfill(ledger: Ledger) -> None:
    """Ten blocks in chunks of two: chunk 1 lacks 102, chunk 3 lacks 107, the rest is complete."""
    await create(ledger, chunk_size=2, max_concurrent_runs=9)
    claims = await claim(ledger, 5)
    await fail(ledger, claims[1], done(3, (2, 2)), permanent=True)
    await fail(ledger, claims[3], done(6), permanent=True)
    await complete(ledger, claims[0], claims[2], claims[4])
    await ledger.settle()


async def test_the_child_contains_exactly_what_failed(ledger: Ledger) -> None:
    await failed_backfill(ledger)
    child = await ledger.retry_failed("bf", "child")
    assert (child.parent_backfill_id, child.state) == ("bf", State.PENDING)
    selection = await ledger.selection(child.selection)
    assert selection.all_keys() == ["102", "107"]
    assert child.selector == {"kind": "explicit", "keys": ["102", "107"], "more": 0}
    await finish(ledger)
    assert (await state(ledger), await state(ledger, "child")) == ("FAILED", "SUCCEEDED")


async def test_what_was_retried_as_a_dead_letter_is_not_retried_twice(ledger: Ledger) -> None:
    await failed_backfill(ledger)
    first = await ledger.retry_dead("bf", "first", [1])
    rest = await ledger.retry_failed("bf", "rest")
    assert (await ledger.selection(first.selection)).all_keys() == ["102"]
    assert (await ledger.selection(rest.selection)).all_keys() == ["107"]
    assert await ledger.dead() == []


async def test_the_parent_does_not_change(ledger: Ledger) -> None:
    await failed_backfill(ledger)
    before = await ledger.backfill("bf"), await ledger.chunks("bf"), await ledger.events("bf")
    await ledger.retry_failed("bf", "child")
    await finish(ledger)
    assert before == (
        await ledger.backfill("bf"),
        await ledger.chunks("bf"),
        await ledger.events("bf"),
    )


async def test_the_child_inherits_everything_else(ledger: Ledger) -> None:
    await create(
        ledger,
        queue="backlog",
        order=Order.NEWEST,
        lease_seconds=9,
        group="g",
        chunk_size=3,
        spec={"network": "ethereum"},
    )
    parent = await ledger.cancel("bf")
    child = await ledger.retry_failed("bf", "child")
    for name in ("job", "job_version", "chunk_size", "max_concurrent_runs", "queue", "order"):
        assert getattr(child, name) == getattr(parent, name)
    for name in ("retry", "lease_seconds", "group", "spec"):
        assert getattr(child, name) == getattr(parent, name)


async def test_asking_twice_creates_one_child(ledger: Ledger) -> None:
    await failed_backfill(ledger)
    child = await ledger.retry_failed("bf", "child")
    assert child.retry_request_id == "bf:2"
    assert await ledger.retry_failed("bf", "another id") == child
    assert await ledger.retry_failed("bf", "another id", "bf:2") == child


async def test_each_request_id_creates_one_child(ledger: Ledger) -> None:
    await failed_backfill(ledger)
    first = await ledger.retry_failed("bf", "child-1", "monday")
    assert await ledger.retry_failed("bf", "child-2", "monday") == first
    assert (await ledger.retry_failed("bf", "child-2", "tuesday")).id == "child-2"
    assert len(await ledger.backfills()) == 3


async def test_two_concurrent_requests_create_one_child(ledger: Ledger, other: Ledger) -> None:
    await failed_backfill(ledger)
    children = await asyncio.gather(
        *(each.retry_failed("bf", f"child-{n}") for n, each in enumerate([ledger, other] * 4))
    )
    assert len({child.id for child in children}) == 1


async def test_the_child_of_a_child_contains_what_is_still_missing(ledger: Ledger) -> None:
    await failed_backfill(ledger)
    await ledger.retry_failed("bf", "child")
    (mine,) = await claim(ledger)
    await fail(ledger, mine, done(0), permanent=True)
    await ledger.settle()
    grandchild = await ledger.retry_failed("child", "grandchild")
    assert (await ledger.selection(grandchild.selection)).all_keys() == ["107"]
    assert grandchild.parent_backfill_id == "child"


async def test_a_backfill_that_succeeded_or_has_not_ended_cannot_be_retried(ledger: Ledger) -> None:
    await create(ledger, partitions=1)
    with pytest.raises(WrongState, match="`bf` is PENDING: only an ended one") as error:
        await ledger.retry_failed("bf", "child")
    assert error.value.remedy == EndBackfill("bf")
    mine = await claim_one(ledger)
    with pytest.raises(WrongState, match="`bf` is RUNNING"):
        await ledger.retry_failed("bf", "child")
    await complete(ledger, mine)
    await ledger.settle()
    with pytest.raises(WrongState, match="`bf` SUCCEEDED: there is nothing to retry"):
        await ledger.retry_failed("bf", "child")


@pytest.mark.parametrize("order", Order)
async def test_a_cancelled_backfill_gives_its_child_what_never_ran(
    ledger: Ledger, order: Order
) -> None:
    keys = tuple("abcdefghij")
    selection = Selection("static", keys=keys)
    await create(ledger, selection=selection, chunk_size=4, order=order)
    await ledger.cancel("bf")
    child = await ledger.retry_failed("bf", "child")
    assert await ledger.selection(child.selection) == selection
    assert child.selector == {"kind": "explicit", "keys": ["a", "b", "c"], "more": 7}


async def test_progress_before_the_cancel_is_not_run_again(ledger: Ledger, clock: Clock) -> None:
    await create(ledger, partitions=10, chunk_size=10)
    mine = await claim_one(ledger)
    await ledger.heartbeat([(mine, done(6))])
    await ledger.cancel("bf")
    clock.now += 60
    await ledger.settle()
    child = await ledger.retry_failed("bf", "child")
    assert (await ledger.selection(child.selection)).all_keys() == ["107", "108", "109"]


async def test_a_cancelled_backfill_that_completed_everything_has_nothing_to_retry(
    ledger: Ledger,
) -> None:
    await create(ledger, partitions=1)
    mine = await claim_one(ledger)
    await ledger.cancel("bf")
    await complete(ledger, mine)
    await ledger.settle()
    assert await state(ledger) == State.CANCELLED
    with pytest.raises(WrongState, match="there is nothing to retry"):
        await ledger.retry_failed("bf", "child")
    assert len(await ledger.backfills()) == 1


async def test_a_child_id_that_is_taken_is_a_conflict(ledger: Ledger) -> None:
    await failed_backfill(ledger)
    await create(ledger, "child", partitions=3)
    with pytest.raises(Conflict):
        await ledger.retry_failed("bf", "child")
