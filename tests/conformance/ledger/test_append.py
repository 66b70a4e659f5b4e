"""A step of a follow's leader: all of it happens, or nothing."""

from __future__ import annotations

import asyncio
from typing import cast

import asyncpg
import pytest

from gapless.core.chunk import Order, Status
from gapless.core.errors import Conflict, LeaseLost, LedgerBusy, UsageError
from gapless.core.events import BackfillChunkPlanned
from gapless.core.ranges import HIGHEST, Span
from gapless.ledger import Ledger
from gapless.ledger.database import Database
from gapless.ledger.records import NewChunk, Progress
from gapless.system import System
from tests.conformance.ledger.test_lost_replies import LosesReplies
from tests.follows import (
    FOLLOW,
    HEAD,
    LEASE,
    LIVE,
    append,
    begin,
    claim_height,
    claim_live,
    closed,
    complete_live,
    head,
    lead,
    step,
)
from tests.support import (
    Chance,
    Clock,
    Home,
    PostgresHome,
    beat,
    claim_one,
    complete,
    database_of,
    event_types,
    fail,
    request,
    state,
    statuses,
)


@pytest.fixture
def flaky(ledger: Ledger) -> Ledger:
    """The same ledger, whose replies get lost."""
    inner = cast(Database, LosesReplies(database_of(ledger)))
    return Ledger(inner, ledger.url, System(chance=Chance()))


# Chunks


async def test_chunks_have_their_own_bounds_and_consecutive_indices(ledger: Ledger) -> None:
    cursor = await append(ledger, await begin(ledger), 9, NewChunk(4, 6))
    await append(ledger, cursor, NewChunk(0, 3))
    rows = await ledger.chunks(HEAD)
    assert [(row.chunk_index, row.span) for row in rows] == [(0, (9, 9)), (1, (4, 6)), (2, (0, 3))]
    backfill = await head(ledger)
    assert (backfill.partitions, backfill.chunks.total, backfill.chunks.planned) == (8, 3, 3)
    assert (backfill.chunks.pending, backfill.state) == (3, "RUNNING")
    planned = [it for it, _ in await ledger.events(HEAD) if isinstance(it, BackfillChunkPlanned)]
    assert [(it.chunk_index, it.first, it.last) for it in planned] == [
        (0, 9, 9),
        (1, 4, 6),
        (2, 0, 3),
    ]


async def test_the_first_chunks_start_the_backfill(ledger: Ledger) -> None:
    cursor = await append(ledger, await begin(ledger), state={"head": 7})
    assert await state(ledger, HEAD) == "PENDING"
    await append(ledger, cursor, 8)
    assert await state(ledger, HEAD) == "RUNNING"
    assert (await event_types(ledger, HEAD)).count("BackfillStateChanged") == 1


async def test_a_chunk_that_draws_a_fence_goes_before_all_others(ledger: Ledger) -> None:
    cursor = await append(ledger, await begin(ledger), HIGHEST, 8)
    await append(ledger, cursor, NewChunk(0, 0, draw_fence=True), 9)
    spans = [each.span.first for each in await claim_live(ledger, 9)]
    assert spans == [0, HIGHEST, 9, 8]


async def test_a_fence_is_drawn_after_the_revocation(ledger: Ledger) -> None:
    """Whatever the revoked run may still write has a lower fence than the retraction."""
    cursor = await append(ledger, await begin(ledger), 7)
    revoked = await claim_height(ledger, 7)
    retract = NewChunk(7, 7, payload="retract", draw_fence=True)
    await append(ledger, cursor, retract, revoke=Span(7, 7))
    (row,) = await ledger.chunks(HEAD, 1, 1)
    assert row.write_fence is not None
    assert row.write_fence > revoked.fence
    later = await claim_one(ledger, queues=LIVE)
    assert later.fence > row.write_fence == later.write_fence


@pytest.mark.parametrize("bounds", [(-1, 3), (5, 4), (0, HIGHEST + 1)])
async def test_bounds_that_make_no_sense_are_refused(
    ledger: Ledger, bounds: tuple[int, int]
) -> None:
    cursor = await begin(ledger)
    with pytest.raises(UsageError, match="is not a range of heights"):
        step(cursor, NewChunk(*bounds))


# The cursor


async def test_the_state_is_kept_as_it_is(ledger: Ledger, clock: Clock) -> None:
    cursor = await begin(ledger)
    clock.now += 3
    kept = {"head": 7, "hashes": {"7": "0xab"}, "deep": [None, 1.5, "é\0"]}
    moved = await append(ledger, cursor, state=kept)
    assert (moved.state, moved.version, moved.updated_at) == (kept, 1, clock.now)
    assert (moved.owner, moved.fence, moved.lease_until) == (
        cursor.owner,
        cursor.fence,
        cursor.lease_until,
    )
    assert await ledger.cursor(FOLLOW) == moved


async def test_a_step_from_an_old_version_is_lost(ledger: Ledger) -> None:
    old = await begin(ledger)
    new = await append(ledger, old, 7)
    assert await ledger.append(step(old, 8)) is None
    assert await ledger.cursor(FOLLOW) == new
    assert (await head(ledger)).chunks.planned == 1


async def test_steps_at_once_are_taken_one_at_a_time(ledger: Ledger, other: Ledger) -> None:
    cursor = await begin(ledger)
    steps = [each.append(step(cursor, 7)) for each in [ledger, other] * 4]
    taken = [found for found in await asyncio.gather(*steps) if found is not None]
    assert len(taken) == 1
    assert (await head(ledger)).chunks.planned == 1


async def test_a_step_of_which_a_part_is_refused_changes_nothing(ledger: Ledger) -> None:
    await ledger.create(request("taken"))
    cursor = await append(ledger, await begin(ledger), 7)
    with pytest.raises(Conflict):
        await ledger.append(step(cursor, 8, revoke=Span(7, 7), backfills=(closed("taken"),)))
    with pytest.raises(UsageError, match="chunk 0 of `head` is not a dead letter"):
        await ledger.append(step(cursor, 8, replace=(0,)))
    assert await ledger.cursor(FOLLOW) == cursor
    assert await statuses(ledger, HEAD) == [Status.PENDING]


async def test_a_lost_reply_is_found_out(ledger: Ledger, flaky: Ledger) -> None:
    cursor = await begin(flaky)
    moved = await append(
        flaky,
        cursor,
        7,
        NewChunk(8, 8, draw_fence=True),
        state={"head": 8},
        backfills=(closed("history"),),
    )
    assert (moved.version, moved.state) == (1, {"head": 8})
    assert (await head(ledger)).chunks.planned == 2
    assert (await event_types(ledger, HEAD)).count("BackfillChunkPlanned") == 2
    assert (await append(flaky, moved, 9, revoke=Span(0, 9))).version == 2
    assert (await head(ledger)).chunks.cancelled == 2


async def test_a_lost_reply_of_a_leader_that_was_succeeded_is_a_loss(
    ledger: Ledger, flaky: Ledger, clock: Clock
) -> None:
    old = await begin(ledger, "one")
    clock.now += LEASE
    await append(ledger, await lead(ledger, "two"), 7)
    assert await flaky.append(step(old, 8)) is None


# Closed backfills


async def test_closed_backfills_are_created_in_the_same_step(ledger: Ledger) -> None:
    cursor = await append(ledger, await begin(ledger), 500, backfills=(closed("a"), closed("b")))
    made = await ledger.backfill("a")
    assert (made.follow, made.standing, made.order, made.queue) == (
        FOLLOW,
        False,
        Order.NEWEST,
        "backlog",
    )
    await append(ledger, cursor, backfills=(closed("a"),))
    assert len(await ledger.backfills()) == 3


async def test_only_closed_backfills_of_this_follow_can_be_created(ledger: Ledger) -> None:
    cursor = await begin(ledger)
    for wrong in (request("a"), closed("a", follow="tron")):
        with pytest.raises(UsageError, match="`a` is not a closed backfill of `eth`"):
            step(cursor, backfills=(wrong,))


# Revoking


async def test_revoking_cancels_all_that_overlaps_and_has_not_ended(
    ledger: Ledger, clock: Clock
) -> None:
    """Of the heights 5 to 9: complete, dead, failed, running and pending ones, and some beside."""
    cursor = await append(ledger, await begin(ledger), 4, 5, 6, 7, 8, 9, NewChunk(1, 3))
    nine, eight, seven, six = await claim_live(ledger, 4)
    await complete(ledger, nine)
    await fail(ledger, eight, permanent=True)
    await fail(ledger, seven)
    cursor = await append(ledger, cursor, backfills=(closed("history"),), revoke=Span(5, 100))
    found = {row.span.first: row.status for row in await ledger.chunks(HEAD)}
    assert found == {
        1: Status.PENDING,
        4: Status.PENDING,
        5: Status.CANCELLED,
        6: Status.CANCELLED,
        7: Status.CANCELLED,
        8: Status.ABANDONED,
        9: Status.COMPLETE,
    }
    assert (await head(ledger)).chunks.cancelled == 3
    await append(ledger, cursor, revoke=Span(3, 3))
    assert (await statuses(ledger, HEAD))[6] is Status.CANCELLED
    assert await beat(ledger, six) == "lost"


async def test_unfinished_chunks_of_closed_backfills_are_left_alone(ledger: Ledger) -> None:
    cursor = await append(ledger, await begin(ledger), backfills=(closed("history"),))
    mine = await claim_one(ledger, queues=("backlog",))
    await append(ledger, cursor, revoke=Span(0, HIGHEST))
    assert await beat(ledger, mine) == "go on"


async def test_a_worker_whose_chunk_was_revoked_has_lost_it(ledger: Ledger) -> None:
    cursor = await append(ledger, await begin(ledger), 4, 5, 6, 7, 8)
    held = await claim_live(ledger, 5)
    await append(ledger, cursor, revoke=Span(4, 8))
    before = await ledger.chunks(HEAD)
    beating, completing, failing, releasing, writing = held
    assert await beat(ledger, beating) == "lost"
    assert await ledger.complete([completing]) == {completing.chunk_id}
    assert await fail(ledger, failing) is None
    assert not await ledger.release(releasing, Progress())
    with pytest.raises(LeaseLost):
        async with ledger.holding(writing, Progress):
            raise AssertionError
    assert await ledger.chunks(HEAD) == before
    assert (await head(ledger)).chunks.cancelled == 5


async def test_revoking_waits_for_the_transaction_of_a_job(ledger: Ledger, home: Home) -> None:
    """On SQLite, such a transaction holds up every other writer anyway."""
    if not isinstance(home, PostgresHome):
        pytest.skip("only PostgreSQL locks rows")
    cursor = await append(ledger, await begin(ledger), 7)
    mine = await claim_height(ledger, 7)
    stranger = await asyncpg.connect(home.url)
    async with stranger.transaction():
        await stranger.fetch("SELECT 1 FROM gapless.chunks FOR UPDATE")
        with pytest.raises(LedgerBusy):
            await ledger.append(step(cursor, revoke=Span(7, 7)))
    await stranger.close()
    assert await beat(ledger, mine) == "go on"
    async with ledger.holding(mine, lambda: Progress(7)):
        revoking = asyncio.create_task(ledger.append(step(cursor, revoke=Span(7, 7))))
        await asyncio.sleep(0.05)
        assert not revoking.done()
    assert await revoking is not None
    assert await statuses(ledger, HEAD) == [Status.CANCELLED]


async def test_revoking_and_completing_at_once_agree(ledger: Ledger, other: Ledger) -> None:
    cursor = await append(ledger, await begin(ledger), *range(40))
    held = await claim_live(ledger, 40)
    lost, moved = await asyncio.gather(
        other.complete(held), ledger.append(step(cursor, revoke=Span(0, 100)))
    )
    assert moved is not None
    counts = (await head(ledger)).chunks
    assert (counts.complete, counts.cancelled) == (40 - len(lost), len(lost))


# Replacing dead letters


async def test_dead_letters_are_replaced_by_new_chunks(ledger: Ledger) -> None:
    cursor = await append(ledger, await begin(ledger), 7, 8)
    for mine in await claim_live(ledger, 2):
        await fail(ledger, mine, permanent=True)
    assert len(await ledger.attempts(HEAD, 0)) == 1
    cursor = await append(ledger, cursor, 7, replace=(0,))
    assert [row.chunk_index for row in await ledger.chunks(HEAD)] == [1, 2]
    assert [letter.chunk_index for letter in await ledger.dead()] == [1]
    assert await ledger.attempts(HEAD, 0) == []
    assert (await event_types(ledger, HEAD)).count("ChunkFailed") == 1
    counts = (await head(ledger)).chunks
    assert (counts.planned, counts.abandoned, counts.pending) == (3, 2, 1)
    (queue,) = await ledger.queues()
    assert (queue.failed, queue.dead) == (2, 1)
    assert await ledger.check() == []
    with pytest.raises(UsageError, match="chunk 0 of `head` is not a dead letter"):
        await ledger.append(step(cursor, 7, replace=(0,)))
    await complete_live(ledger)
    assert (await head(ledger)).chunks.complete == 1
