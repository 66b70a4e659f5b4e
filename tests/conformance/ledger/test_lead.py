"""One process leads a follow; the others stand by, and take over when its lease has ended."""

from __future__ import annotations

import asyncio

import pytest

from gapless.core.errors import NotFound
from gapless.ledger import Ledger
from gapless.ledger.cursor import HeadSeen
from tests.follows import FOLLOW, HEAD, LEASE, append, at, begin, closed, lead, standing, step
from tests.support import NOON, Clock, claim_one, create


async def test_a_new_follow_has_no_leader(ledger: Ledger) -> None:
    await ledger.create(standing())
    cursor = await ledger.cursor(FOLLOW)
    assert (cursor.follow, cursor.backfill_id, cursor.owner) == (FOLLOW, HEAD, None)
    assert (cursor.fence, cursor.version, cursor.state) == (0, 0, {})
    assert (cursor.lease_until, cursor.updated_at) == (None, NOON)
    assert not cursor.is_led()


async def test_whoever_asks_first_leads(ledger: Ledger) -> None:
    cursor = await begin(ledger, "one")
    assert (cursor.owner, cursor.lease_until) == ("one", NOON + LEASE)
    assert cursor.fence > 0
    assert cursor.is_led()
    assert await ledger.cursor(FOLLOW) == cursor
    assert await ledger.lead(FOLLOW, "two", LEASE) is None
    assert await ledger.cursor(FOLLOW) == cursor


async def test_a_leader_renews_its_lease_and_keeps_its_fence(ledger: Ledger, clock: Clock) -> None:
    first = await begin(ledger)
    clock.now += LEASE - 1
    again = await lead(ledger)
    assert (again.fence, again.version) == (first.fence, first.version)
    assert again.lease_until == clock.now + LEASE


async def test_an_expired_lease_is_taken_with_a_new_fence(ledger: Ledger, clock: Clock) -> None:
    first = await begin(ledger, "one")
    clock.now += LEASE
    assert not (await ledger.cursor(FOLLOW)).is_led()
    second = await lead(ledger, "two")
    assert second.owner == "two"
    assert second.fence > first.fence
    assert await ledger.lead(FOLLOW, "one", LEASE) is None


async def test_a_leader_that_comes_back_too_late_gets_a_new_fence(
    ledger: Ledger, clock: Clock
) -> None:
    first = await begin(ledger)
    clock.now += LEASE
    assert (await lead(ledger)).fence > first.fence


async def test_a_leader_that_was_paused_past_its_lease_can_append_nothing(
    ledger: Ledger, other: Ledger, clock: Clock
) -> None:
    paused = await begin(ledger, "one")
    clock.now += LEASE
    heir = await append(other, await lead(other, "two"), 7)
    assert await ledger.append(step(paused, 8)) is None
    assert await ledger.fold(FOLLOW, "one", paused.fence, 100, 100) == 0
    assert [chunk.span for chunk in await ledger.chunks(HEAD)] == [(7, 7)]
    assert await ledger.cursor(FOLLOW) == heir


async def test_an_expired_leader_may_append_until_somebody_else_leads(
    ledger: Ledger, clock: Clock
) -> None:
    cursor = await begin(ledger)
    clock.now += LEASE + 1
    assert await ledger.append(step(cursor, 7)) is not None


async def test_a_lease_further_ahead_than_possible_counts_as_past(
    ledger: Ledger, clock: Clock
) -> None:
    first = await begin(ledger, "one")
    clock.now -= 1
    assert await ledger.lead(FOLLOW, "two", LEASE) is None
    clock.now -= 86_400
    assert (await lead(ledger, "two")).fence > first.fence


async def test_a_leader_records_what_it_saw_of_the_head(ledger: Ledger, clock: Clock) -> None:
    first = await begin(ledger)
    assert (first.head_seen_at, first.head_time, first.trouble) == (None, None, None)
    seen = HeadSeen(ago=2.0, time=NOON - 5)
    found, _ = await ledger.lead(FOLLOW, "leader", LEASE, seen) or pytest.fail("it does not lead")
    assert (found.head_seen_at, found.head_time, found.trouble) == (NOON - 2, NOON - 5, None)
    assert (found.version, found.state) == (first.version, first.state)
    clock.now += 4
    seen = HeadSeen(trouble="HTTP 503")
    blind, _ = await ledger.lead(FOLLOW, "leader", LEASE, seen) or pytest.fail("it does not lead")
    assert (blind.head_seen_at, blind.head_time, blind.trouble) == (NOON - 2, NOON - 5, "HTTP 503")
    assert blind.lease_until == clock.now + LEASE
    assert await ledger.cursor(FOLLOW) == blind


async def test_what_a_leader_saw_stays_until_the_next_one_has_looked(
    ledger: Ledger, clock: Clock
) -> None:
    await begin(ledger, "one")
    seen = HeadSeen(ago=1.0, time=NOON, trouble="HTTP 503")
    assert await ledger.lead(FOLLOW, "two", LEASE, HeadSeen(ago=0.0)) is None
    await ledger.lead(FOLLOW, "one", LEASE, seen)
    clock.now += LEASE
    heir = await lead(ledger, "two")
    assert (heir.head_seen_at, heir.head_time, heir.trouble) == (NOON - 1, NOON, "HTTP 503")


async def test_a_changed_follow_has_no_leader(ledger: Ledger) -> None:
    cursor = await begin(ledger, "one")
    for name in ("ended", "open"):
        await ledger.create(closed(name))
    await ledger.cancel("ended")
    await ledger.create(standing("b", "tron"))
    await ledger.change_follow(FOLLOW, lambda it: ({"was": it.id}, f"{it.queue}-2"))
    found = {each.id: (each.spec, each.queue) for each in await ledger.backfills()}
    assert found == {
        HEAD: ({"was": HEAD}, "priority-2"),
        "open": ({"was": "open"}, "backlog-2"),
        "ended": ({}, "backlog"),
        "b": ({}, "priority"),
    }
    assert await ledger.append(step(cursor, 7)) is None
    assert (await lead(ledger, "two")).version == cursor.version
    assert await ledger.check() == []


async def test_who_resigns_makes_room_at_once(ledger: Ledger) -> None:
    cursor = await append(ledger, await begin(ledger, "one"), 7, state={"head": 7})
    await ledger.resign(FOLLOW, "two")
    assert await ledger.cursor(FOLLOW) == cursor
    await ledger.resign(FOLLOW, "one")
    await ledger.resign(FOLLOW, "one")
    assert not (await ledger.cursor(FOLLOW)).is_led()
    assert await ledger.append(step(cursor, 8)) is None
    heir = await lead(ledger, "two")
    assert heir.fence > cursor.fence
    assert (heir.version, heir.state) == (cursor.version, {"head": 7})


async def test_the_fence_comes_from_the_sequence_of_all_claims(ledger: Ledger) -> None:
    await create(ledger, partitions=2)
    before = await claim_one(ledger)
    cursor = await begin(ledger)
    after = await claim_one(ledger)
    assert before.fence < cursor.fence < after.fence


async def test_raising_fences_and_electing_leaders_draws_none_twice(
    ledger: Ledger, other: Ledger
) -> None:
    await ledger.create(standing())
    fences: list[int] = []
    done = asyncio.Event()

    async def change_leaders() -> None:
        for number in range(60):
            fences.append((await lead(ledger, f"owner {number}")).fence)
            await ledger.resign(FOLLOW, f"owner {number}")
        done.set()

    async def rise() -> None:
        while not done.is_set():
            await other.raise_fence(max(fences, default=0) + 2)
            await asyncio.sleep(0)

    async with asyncio.TaskGroup() as group:
        group.create_task(change_leaders())
        group.create_task(rise())
    assert fences == sorted(set(fences))
    assert len(fences) == 60


async def test_many_who_want_to_lead_elect_one(ledger: Ledger, other: Ledger) -> None:
    await ledger.create(standing())
    asked = [each.lead(FOLLOW, f"{at}", LEASE) for at, each in enumerate([ledger, other] * 4)]
    found = await asyncio.gather(*asked)
    assert len([led for led in found if led is not None]) == 1


async def test_follows_are_listed_by_name(ledger: Ledger, clock: Clock) -> None:
    assert await ledger.follows() == []
    await ledger.create(standing("b", "tron"))
    cursor = await begin(ledger)
    clock.now += 1
    tron = await ledger.cursor("tron")
    found = await ledger.follows()
    assert [each for each, _ in found] == [at(cursor, now=clock.now), tron]
    assert [backfill.id for _, backfill in found] == [HEAD, "b"]


async def test_an_unknown_follow_is_not_found(ledger: Ledger) -> None:
    with pytest.raises(NotFound, match="there is no follow `eth`"):
        await ledger.cursor(FOLLOW)
    with pytest.raises(NotFound, match="there is no follow `eth`"):
        await ledger.lead(FOLLOW, "one", LEASE)
