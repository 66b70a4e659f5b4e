"""A wallet that is added again: what waits is due, what was given up is retried, once."""

from __future__ import annotations

import pytest

from gapless.core.retry import RetryPolicy
from gapless.ledger import Ledger
from tests.support import Clock, claim, claim_one, complete, done, fail, finish
from tests.wallets import ALICE, BOB, add, states, sync_of


async def test_a_complete_sync_that_is_added_again_does_not_change(ledger: Ledger) -> None:
    await add(ledger, ALICE)
    await finish(ledger)
    before = await sync_of(ledger, ALICE)
    assert await add(ledger, ALICE) == [before]
    assert len(await ledger.backfills()) == 1


async def test_adding_again_makes_waiting_segments_due(ledger: Ledger, clock: Clock) -> None:
    await add(ledger, ALICE, heights=(100, 109))
    await fail(ledger, await claim_one(ledger))
    assert (await sync_of(ledger, ALICE)).state == "FAILED"
    assert await claim(ledger) == []
    (alice,) = await add(ledger, ALICE, heights=(100, 109))
    assert alice.progress.next_retry_at == clock.now
    await complete(ledger, await claim_one(ledger))
    assert (await sync_of(ledger, ALICE)).state == "COMPLETE"


@pytest.mark.parametrize("settled", [True, False])
async def test_adding_again_retries_abandoned_segments_in_a_child(
    ledger: Ledger, settled: bool
) -> None:
    await add(ledger, ALICE, BOB, chunk_size=50, retry=RetryPolicy())
    good, bad = await claim(ledger, 2)
    await complete(ledger, good)
    await fail(ledger, bad, done(59, (55, 56)), permanent=True)
    if settled:
        await ledger.settle()
    alice = await sync_of(ledger, ALICE)
    assert (alice.state, alice.progress.done, alice.progress.processed_to) == ("ABANDONED", 58, 154)
    (alice,) = await add(ledger, ALICE, chunk_size=50)
    assert (alice.state, len(alice.passes), alice.progress.trouble) == ("PENDING", 2, None)
    assert (alice.progress.segments.complete, alice.progress.segments.total) == (1, 2)
    child = await ledger.backfill(alice.passes[1])
    assert child.parent_backfill_id == alice.passes[0]
    assert child.chunks.planned == child.chunks.total
    assert (await ledger.selection(child.selection)).spans == ((155, 156), (160, 199))
    assert (await sync_of(ledger, BOB)).passes == alice.passes
    again = await add(ledger, ALICE, BOB, chunk_size=50)
    assert [each.passes for each in again] == [alice.passes] * 2
    await finish(ledger)
    assert await states(ledger) == {ALICE: "COMPLETE", BOB: "COMPLETE"}
    assert (await sync_of(ledger, BOB)).progress.done == 100


async def test_adding_again_retries_dead_letters_of_a_pass_that_still_runs(ledger: Ledger) -> None:
    await add(ledger, ALICE, chunk_size=50, retry=RetryPolicy())
    dead, running = await claim(ledger, 2)
    await fail(ledger, dead, permanent=True)
    (alice,) = await add(ledger, ALICE, chunk_size=50)
    assert (alice.state, alice.progress.segments.total, alice.progress.segments.abandoned) == (
        "RUNNING",
        2,
        0,
    )
    await complete(ledger, running)
    await finish(ledger)
    assert (await sync_of(ledger, ALICE)).state == "COMPLETE"


async def test_a_child_that_fails_is_retried_too(ledger: Ledger) -> None:
    for _ in range(3):
        await add(ledger, ALICE, heights=(100, 109), retry=RetryPolicy())
        await fail(ledger, await claim_one(ledger), permanent=True)
        await ledger.settle()
    alice = await sync_of(ledger, ALICE)
    assert (alice.state, len(alice.passes), alice.progress.failed_runs) == ("ABANDONED", 3, 3)
    assert (alice.progress.segments.total, alice.progress.segments.abandoned) == (1, 1)


async def test_a_cancelled_pass_is_retried_where_it_stopped(ledger: Ledger) -> None:
    (alice,) = await add(ledger, ALICE)
    await ledger.release(await claim_one(ledger), done(3))
    await complete(ledger, *(await claim(ledger, 3))[1:])
    await ledger.cancel(alice.passes[0], force=True)
    alice = await sync_of(ledger, ALICE)
    assert (alice.state, alice.progress.done, alice.progress.processed_to) == ("CANCELLED", 24, 103)
    (alice,) = await add(ledger, ALICE)
    assert alice.state == "PENDING"
    await finish(ledger)
    assert (await sync_of(ledger, ALICE)).progress.done == 100


async def test_a_retry_that_a_person_starts_counts_too(ledger: Ledger) -> None:
    (alice,) = await add(ledger, ALICE, retry=RetryPolicy(), chunk_size=50)
    for each in await claim(ledger, 2):
        await fail(ledger, each, permanent=True)
    await ledger.retry_dead(alice.passes[0], "by hand", [1])
    alice = await sync_of(ledger, ALICE)
    assert (alice.state, alice.progress.segments.pending) == ("PENDING", 1)
    assert (alice.progress.done, alice.progress.processed_to) == (0, None)
    await finish(ledger)
    assert (await sync_of(ledger, ALICE)).state == "ABANDONED"
    await ledger.purge(alice.passes[0], [0])
    alice = await sync_of(ledger, ALICE)
    assert (alice.state, alice.progress.done, alice.progress.processed_to) == (
        "ABANDONED",
        50,
        None,
    )
    await add(ledger, ALICE)
    await finish(ledger)
    assert (await sync_of(ledger, ALICE)).state == "COMPLETE"


async def test_a_paused_pass_stays_paused(ledger: Ledger) -> None:
    (alice,) = await add(ledger, ALICE)
    await ledger.pause(alice.passes[0])
    assert [each.state for each in await add(ledger, ALICE)] == ["PAUSED"]
