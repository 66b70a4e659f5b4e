"""Cancel ends unstarted chunks at once, and is CANCELLED once the active ones have ended."""

from __future__ import annotations

import pytest

from gapless.core.backfill import State, describe
from gapless.core.chunk import Status
from gapless.core.errors import WrongState
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


async def test_a_pending_backfill_is_cancelled_at_once(ledger: Ledger, clock: Clock) -> None:
    await create(ledger)
    backfill = await ledger.cancel("bf")
    assert (backfill.state, backfill.ended_at) == (State.CANCELLED, clock.now)
    assert await claim(ledger) == []


async def test_a_paused_backfill_is_cancelled_at_once(ledger: Ledger) -> None:
    await create(ledger)
    await ledger.release(await claim_one(ledger), done())
    await ledger.pause("bf")
    assert (await ledger.cancel("bf")).state is State.CANCELLED
    assert set(await statuses(ledger)) == {Status.CANCELLED}


async def test_a_running_backfill_without_active_chunks_is_cancelled_at_once(
    ledger: Ledger,
) -> None:
    await create(ledger, partitions=3)
    await complete(ledger, await claim_one(ledger))
    assert (await ledger.cancel("bf")).state is State.CANCELLED
    assert await statuses(ledger) == [Status.COMPLETE, Status.CANCELLED, Status.CANCELLED]


async def test_chunks_in_an_hours_backoff_do_not_delay_a_cancel(ledger: Ledger) -> None:
    await create(ledger, partitions=2)
    for each in await claim(ledger, 2):
        await fail(ledger, each)
    assert (await ledger.cancel("bf")).state is State.CANCELLED
    assert await statuses(ledger) == [Status.CANCELLED] * 2


async def test_active_chunks_end_first(ledger: Ledger) -> None:
    await create(ledger, partitions=3)
    first, second = await claim(ledger, 2)
    backfill = await ledger.cancel("bf")
    assert backfill.state is State.RUNNING
    assert describe(backfill.lifecycle) == "cancelling"
    assert await statuses(ledger) == [Status.RUNNING, Status.RUNNING, Status.CANCELLED]
    assert await beat(ledger, first) == "stop"
    await complete(ledger, first)
    assert await ledger.settle() == []
    await ledger.release(second, done())
    assert await ledger.settle() == ["bf"]
    assert await statuses(ledger) == [Status.COMPLETE, Status.CANCELLED, Status.CANCELLED]


async def test_nothing_new_starts_while_cancelling(ledger: Ledger) -> None:
    await create(ledger, partitions=1000)
    first, second = await claim(ledger, 2)
    await ledger.cancel("bf")
    await fail(ledger, first)
    assert await claim(ledger, 9) == []
    await complete(ledger, second)
    await ledger.settle()
    assert await state(ledger) == State.CANCELLED


async def test_a_lease_that_ends_lets_the_cancel_through(ledger: Ledger, clock: Clock) -> None:
    await create(ledger, partitions=1)
    await claim_one(ledger)
    await ledger.cancel("bf")
    clock.now += 59
    assert await ledger.settle() == []
    clock.now += 1
    assert await ledger.settle() == ["bf"]
    assert await statuses(ledger) == [Status.CANCELLED]


async def test_force_takes_active_chunks_away(ledger: Ledger) -> None:
    await create(ledger, partitions=1)
    mine = await claim_one(ledger)
    assert (await ledger.cancel("bf", force=True)).state is State.CANCELLED
    assert await beat(ledger, mine) == "lost"
    assert await ledger.complete([mine]) == {"bf:0"}
    assert await statuses(ledger) == [Status.CANCELLED]


async def test_force_works_on_a_backfill_that_is_already_cancelling(ledger: Ledger) -> None:
    await create(ledger, partitions=1)
    await claim_one(ledger)
    assert (await ledger.cancel("bf")).state is State.RUNNING
    assert (await ledger.cancel("bf", force=True)).state is State.CANCELLED
    assert (await ledger.cancel("bf", force=True)).state is State.CANCELLED


async def test_a_cancel_repeated_changes_nothing(ledger: Ledger) -> None:
    await create(ledger)
    await claim_one(ledger)
    await ledger.cancel("bf")
    before = await event_types(ledger)
    assert (await ledger.cancel("bf")).state is State.RUNNING
    assert await event_types(ledger) == before


async def test_a_cancel_wins_over_earlier_failures(ledger: Ledger) -> None:
    await create(ledger, partitions=2)
    first, second = await claim(ledger, 2)
    await fail(ledger, first, permanent=True)
    await ledger.cancel("bf")
    await complete(ledger, second)
    await ledger.settle()
    assert await state(ledger) == State.CANCELLED
    assert await statuses(ledger) == [Status.ABANDONED, Status.COMPLETE]


async def test_a_cancelling_backfill_can_be_neither_paused_nor_resumed(ledger: Ledger) -> None:
    await create(ledger)
    await claim_one(ledger)
    await ledger.cancel("bf")
    for command in (ledger.pause, ledger.resume):
        with pytest.raises(WrongState, match="`bf` is cancelling") as error:
            await command("bf")
        assert error.value.hint == "possible now: wait, force cancel"


async def test_a_backfill_that_succeeded_cannot_be_cancelled(ledger: Ledger) -> None:
    await create(ledger, partitions=1)
    await finish(ledger)
    with pytest.raises(WrongState, match="`bf` is SUCCEEDED: cannot cancel it"):
        await ledger.cancel("bf")


async def test_a_paused_backfill_with_an_active_chunk_is_cancelling_too(ledger: Ledger) -> None:
    await create(ledger)
    mine = await claim_one(ledger)
    await ledger.pause("bf")
    assert describe((await ledger.cancel("bf")).lifecycle) == "cancelling"
    assert await beat(ledger, mine) == "stop"
    await ledger.release(mine, done())
    assert await ledger.settle(["bf"]) == ["bf"]
