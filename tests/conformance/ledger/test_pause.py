"""Pause only stops new chunks; resume continues where planning stopped."""

from __future__ import annotations

import pytest

from gapless.core.backfill import State
from gapless.core.errors import WrongState
from gapless.ledger import Ledger
from gapless.ledger.claims import PLAN_AHEAD
from tests.support import (
    Clock,
    beat,
    claim,
    claim_one,
    complete,
    create,
    event_types,
    fail,
    finish,
    indices,
    state,
)


async def test_nothing_is_claimed_while_paused(ledger: Ledger, clock: Clock) -> None:
    await create(ledger)
    failed, lost = await claim(ledger, 2)
    await fail(ledger, failed)
    await ledger.pause("bf")
    clock.now += 10_000
    assert await claim(ledger, 9) == []
    await ledger.resume("bf")
    assert indices(await claim(ledger, 2)) == [failed.chunk_index, lost.chunk_index]


async def test_active_chunks_finish_while_paused(ledger: Ledger) -> None:
    await create(ledger)
    mine = await claim_one(ledger)
    await ledger.pause("bf")
    assert await beat(ledger, mine) == "pause"
    await complete(ledger, mine)
    assert await ledger.settle() == []
    backfill = await ledger.backfill("bf")
    assert (backfill.state, backfill.chunks.complete) == (State.PAUSED, 1)


async def test_resume_continues_at_the_next_unplanned_chunk(ledger: Ledger) -> None:
    await create(ledger, partitions=PLAN_AHEAD + 5, max_concurrent_runs=1000)
    await complete(ledger, *await claim(ledger, PLAN_AHEAD))
    await ledger.pause("bf")
    assert await claim(ledger) == []
    assert (await ledger.backfill("bf")).chunks.planned == PLAN_AHEAD
    await ledger.resume("bf")
    assert indices(await finish(ledger)) == list(range(PLAN_AHEAD, PLAN_AHEAD + 5))
    assert await state(ledger) == State.SUCCEEDED


async def test_a_pending_backfill_can_be_paused_and_resumed(ledger: Ledger) -> None:
    await create(ledger)
    await ledger.pause("bf")
    assert await claim(ledger) == []
    assert (await ledger.resume("bf")).state is State.RUNNING
    await finish(ledger)
    assert await state(ledger) == State.SUCCEEDED


async def test_pausing_during_the_last_chunk_then_resuming_ends_it(ledger: Ledger) -> None:
    await create(ledger, partitions=1)
    mine = await claim_one(ledger)
    await ledger.pause("bf")
    await complete(ledger, mine)
    assert await ledger.settle() == []
    assert (await ledger.resume("bf")).state is State.SUCCEEDED


async def test_resuming_after_the_last_chunk_failed_ends_the_backfill_as_failed(
    ledger: Ledger,
) -> None:
    await create(ledger, partitions=1)
    mine = await claim_one(ledger)
    await ledger.pause("bf")
    await fail(ledger, mine, permanent=True)
    assert (await ledger.resume("bf")).state is State.FAILED


async def test_a_command_repeated_changes_nothing(ledger: Ledger) -> None:
    await create(ledger)
    await claim_one(ledger)
    first = await ledger.pause("bf")
    before = await event_types(ledger)
    assert await ledger.pause("bf") == first
    assert await event_types(ledger) == before
    resumed = await ledger.resume("bf")
    assert await ledger.resume("bf") == resumed
    assert (first.lifecycle.state_version, resumed.lifecycle.state_version) == (2, 3)


async def test_an_ended_backfill_cannot_be_paused_or_resumed(ledger: Ledger) -> None:
    await create(ledger, partitions=1)
    await finish(ledger)
    for command in (ledger.pause, ledger.resume):
        with pytest.raises(WrongState, match="`bf` is SUCCEEDED") as error:
            await command("bf")
        assert error.value.hint == "possible now: show"


async def test_each_change_of_state_raises_the_version_by_one(ledger: Ledger) -> None:
    await create(ledger, partitions=1)
    versions = [(await ledger.pause("bf")).lifecycle.state_version]
    versions.append((await ledger.resume("bf")).lifecycle.state_version)
    await finish(ledger)
    versions.append((await ledger.backfill("bf")).lifecycle.state_version)
    assert versions == [1, 2, 3]
    keys = [
        event.idempotency_key
        for event, _ in await ledger.events("bf")
        if type(event).__name__ == "BackfillStateChanged"
    ]
    assert keys == [
        "backfill_state:bf:1:PAUSED",
        "backfill_state:bf:2:RUNNING",
        "backfill_state:bf:3:SUCCEEDED",
    ]
