"""A clock that jumps can neither hide a chunk nor free one that is held."""

from __future__ import annotations

import pytest

from gapless.ledger import Ledger
from tests.support import (
    NOON,
    Clock,
    Home,
    beat,
    claim,
    claim_one,
    complete,
    create,
    fail,
    finish,
    indices,
    open_at,
    state,
)

DAY = 86_400.0


async def test_an_impossibly_distant_lease_counts_as_expired(ledger: Ledger, clock: Clock) -> None:
    await create(ledger, partitions=1)
    await claim_one(ledger)
    clock.now -= DAY
    assert indices(await claim(ledger)) == [0]


async def test_a_small_step_back_does_not_affect_a_lease(ledger: Ledger, clock: Clock) -> None:
    await create(ledger, partitions=1)
    mine = await claim_one(ledger)
    clock.now -= 1
    assert await claim(ledger) == []
    await complete(ledger, mine)


async def test_a_heartbeat_after_a_jump_back_keeps_the_lease(ledger: Ledger, clock: Clock) -> None:
    await create(ledger, partitions=1)
    mine = await claim_one(ledger)
    clock.now -= DAY
    assert await beat(ledger, mine) == "go on"
    assert await claim(ledger) == []


async def test_an_impossibly_distant_retry_counts_as_due(ledger: Ledger, clock: Clock) -> None:
    await create(ledger, partitions=1)
    await fail(ledger, await claim_one(ledger))
    clock.now -= DAY
    assert indices(await claim(ledger)) == [0]


async def test_a_possible_retry_is_waited_for_after_a_jump_back(
    ledger: Ledger, clock: Clock
) -> None:
    """The longest delay of the default policy is an hour plus a quarter of jitter."""
    await create(ledger, partitions=1)
    await fail(ledger, await claim_one(ledger))
    clock.now -= 4500 - 120
    assert await claim(ledger) == []
    clock.now -= 2
    assert indices(await claim(ledger)) == [0]


async def test_an_impossibly_distant_lease_does_not_delay_a_cancel(
    ledger: Ledger, clock: Clock
) -> None:
    await create(ledger, partitions=1)
    await claim_one(ledger)
    clock.now -= DAY
    assert (await ledger.cancel("bf")).state == "CANCELLED"


async def test_a_jump_forward_only_ends_leases_early(ledger: Ledger, clock: Clock) -> None:
    await create(ledger, partitions=1)
    early = await claim_one(ledger)
    clock.now += 365 * DAY
    heir = await claim_one(ledger)
    assert await beat(ledger, early) == "lost"
    clock.now = NOON
    assert await ledger.complete([early]) == {"bf:0"}
    await complete(ledger, heir)


@pytest.mark.parametrize("actor", ["someone"])
async def test_without_its_own_clock_the_ledger_uses_that_of_the_database(
    home: Home, actor: str
) -> None:
    ledger = await open_at(home, actor=actor)
    try:
        backfill = await create(ledger, partitions=2)
        await finish(ledger)
        assert await state(ledger) == "SUCCEEDED"
        ended = await ledger.backfill("bf")
        assert NOON < backfill.created_at <= (ended.ended_at or 0) <= ended.now
        assert all(row.actor == actor for _, row in await ledger.events("bf"))
    finally:
        await ledger.close()
