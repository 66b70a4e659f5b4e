"""Folding keeps a follow small for ever, and the ledger provable."""

from __future__ import annotations

import pytest

from gapless.core.chunk import Status
from gapless.core.errors import NotFound
from gapless.core.events import BackfillFolded
from gapless.core.ranges import Span
from gapless.ledger import Ledger
from gapless.ledger.cursor import Cursor
from gapless.ledger.records import NewChunk, Progress
from tests.follows import (
    FOLLOW,
    HEAD,
    LIVE,
    append,
    begin,
    claim_height,
    claim_live,
    closed,
    complete_live,
    fold,
    head,
)
from tests.support import (
    Clock,
    Home,
    beat,
    claim,
    claim_one,
    complete,
    event_types,
    fail,
    finish,
    request,
    statuses,
)

MANY = 40


async def rows(home: Home, table: str) -> int:
    ((found,),) = await home.run(f"SELECT count(*) FROM {table}")
    assert isinstance(found, int)
    return found


async def folded(ledger: Ledger) -> BackfillFolded:
    (event,) = [it for it, _ in await ledger.events(HEAD) if isinstance(it, BackfillFolded)]
    return event


async def with_every_status(ledger: Ledger) -> Cursor:
    """Heights 1 to 6: pending, failed, running, dead, cancelled, complete."""
    cursor = await append(ledger, await begin(ledger), 5)
    cursor = await append(ledger, cursor, 1, 2, 3, 4, 6, revoke=Span(5, 5))
    six, four, three, two = await claim_live(ledger, 4)
    await complete(ledger, six)
    await fail(ledger, four, permanent=True)
    await fail(ledger, two)
    assert three.span == (3, 3)
    return cursor


async def test_complete_and_cancelled_chunks_are_deleted_and_stay_counted(ledger: Ledger) -> None:
    cursor = await with_every_status(ledger)
    before = await head(ledger)
    assert await fold(ledger, cursor) == 2
    assert await statuses(ledger, HEAD) == [
        Status.PENDING,
        Status.FAILED,
        Status.RUNNING,
        Status.ABANDONED,
    ]
    assert await head(ledger) == before
    assert (await folded(ledger)) == BackfillFolded(HEAD, 1, 0, 1, 0)
    assert await ledger.check() == []
    assert await fold(ledger, cursor) == 0


async def test_only_what_is_wholly_below_the_height_goes(ledger: Ledger) -> None:
    cursor = await append(ledger, await begin(ledger), NewChunk(1, 3), NewChunk(4, 6), 7)
    await complete_live(ledger)
    assert await fold(ledger, cursor, below=6) == 1
    assert [row.span for row in await ledger.chunks(HEAD)] == [(4, 6), (7, 7)]


async def test_the_limit_is_kept_and_the_oldest_go_first(ledger: Ledger) -> None:
    cursor = await append(ledger, await begin(ledger), *range(10))
    await complete_live(ledger)
    assert await fold(ledger, cursor, limit=4) == 4
    assert [row.chunk_index for row in await ledger.chunks(HEAD)] == [4, 5, 6, 7, 8, 9]
    assert await fold(ledger, cursor, limit=4) == 4
    assert await fold(ledger, cursor, limit=4) == 2
    assert (await folded(ledger)).complete == 10


async def test_indices_are_never_used_again(ledger: Ledger) -> None:
    cursor = await append(ledger, await begin(ledger), 1, 2)
    await complete_live(ledger)
    await fold(ledger, cursor)
    await append(ledger, cursor, 3)
    assert [row.chunk_index for row in await ledger.chunks(HEAD)] == [2]


async def test_nothing_grows(ledger: Ledger, home: Home, clock: Clock) -> None:
    """After many blocks, failures and reorgs, there is no more of anything than after one."""
    cursor = await begin(ledger)
    sizes = []
    for height in range(MANY):
        number = f"history {height}"
        cursor = await append(
            ledger, cursor, height, revoke=Span(height, height), backfills=(closed(number),)
        )
        await fail(ledger, await claim_height(ledger, height))
        clock.now += 5
        await complete(ledger, await claim_height(ledger, height))
        cursor = await append(ledger, cursor, height, state={"head": height})
        cursor = await append(ledger, cursor, revoke=Span(height, height))
        await finish(ledger, queues=("backlog",))
        while await fold(ledger, cursor, below=height + 1):
            pass
        tables = ["chunks", "events", "attempts", "counts", "backfills", "selections", "cursors"]
        tables.append("folded_queues")
        sizes.append([await rows(home, table) for table in tables])
        assert height % 10 or await ledger.check() == []
    assert all(size == sizes[0] for size in sizes)
    counts = (await head(ledger)).chunks
    assert (counts.complete, counts.cancelled, counts.pending) == (MANY, MANY, 0)
    assert (await folded(ledger)) == BackfillFolded(HEAD, MANY, 0, MANY, MANY, failed_runs=MANY)
    queues = {each.name: (each.processed, each.failed) for each in await ledger.queues()}
    assert queues == {"priority": (MANY, MANY), "backlog": (10 * MANY, 0)}


async def test_only_the_leader_folds(ledger: Ledger) -> None:
    cursor = await append(ledger, await begin(ledger), 1)
    await complete_live(ledger)
    assert await ledger.fold(FOLLOW, "another", cursor.fence, 100, 100) == 0
    assert await ledger.fold(FOLLOW, "leader", cursor.fence - 1, 100, 100) == 0
    assert await ledger.fold("unknown", "leader", cursor.fence, 100, 100) == 0
    assert await fold(ledger, cursor) == 1


async def test_a_worker_whose_chunk_was_revoked_and_folded_has_lost_it(ledger: Ledger) -> None:
    cursor = await append(ledger, await begin(ledger), 7)
    mine = await claim_height(ledger, 7)
    cursor = await append(ledger, cursor, revoke=Span(7, 7))
    assert await fold(ledger, cursor) == 1
    assert await beat(ledger, mine) == "lost"
    assert await ledger.complete([mine]) == {mine.chunk_id}
    assert await fail(ledger, mine) is None


# Closed backfills


async def test_ended_backfills_of_the_follow_go_with_all_that_is_theirs(
    ledger: Ledger, home: Home
) -> None:
    cursor = await append(ledger, await begin(ledger), backfills=(closed("a"), closed("b")))
    await ledger.create(request("other", queue="backlog", partitions=3))
    done = await finish(ledger, queues=("backlog",))
    assert len(done) == 23
    assert await ledger.compact() > 0
    assert await fold(ledger, cursor) == 22
    assert {each.id for each in await ledger.backfills()} == {HEAD, "other"}
    with pytest.raises(NotFound):
        await ledger.backfill("a")
    for table in ("events", "chunks", "counts", "attempts"):
        assert not await home.run(f"SELECT 1 FROM {table} WHERE backfill_id IN ('a', 'b')")
    assert await rows(home, "selections") == 2
    assert (await folded(ledger)).backfills == 2
    assert await ledger.check() == []


async def test_a_selection_that_others_use_stays(ledger: Ledger, home: Home) -> None:
    cursor = await append(ledger, await begin(ledger), backfills=(closed("a"),))
    await ledger.create(request("other", queue="backlog"))  # of the same partitions
    await finish(ledger, queues=("backlog",))
    assert await fold(ledger, cursor) == 11
    assert await rows(home, "selections") == 2


@pytest.mark.parametrize("compacted", [False, True])
async def test_a_large_backfill_goes_piece_by_piece(
    ledger: Ledger, home: Home, compacted: bool
) -> None:
    cursor = await append(ledger, await begin(ledger), backfills=(closed("a", partitions=25),))
    await fail(ledger, await claim_one(ledger, queues=("backlog",)))
    await ledger.hasten("a")
    await finish(ledger, queues=("backlog",))
    if compacted:
        await ledger.compact()
    for left in (15, 5):
        assert await fold(ledger, cursor, limit=10) == 10
        assert len(await ledger.chunks("a")) == left
        assert await ledger.check() == []
        await ledger.compact()
    assert await fold(ledger, cursor, limit=10) == 6
    assert [each.id for each in await ledger.backfills()] == [HEAD]
    assert not await home.run("SELECT 1 FROM events WHERE backfill_id = 'a'")
    assert (await folded(ledger)).backfills == 1


async def test_a_backfill_of_which_a_part_is_gone_cannot_be_retried(ledger: Ledger) -> None:
    cursor = await append(ledger, await begin(ledger), backfills=(closed("a", partitions=5),))
    await complete(ledger, await claim_one(ledger, queues=("backlog",)))
    await ledger.cancel("a")
    assert await fold(ledger, cursor, limit=2) == 2
    with pytest.raises(NotFound, match="`a` is being deleted"):
        await ledger.retry_failed("a", "child")


async def test_a_backfill_that_has_not_ended_well_stays(ledger: Ledger) -> None:
    cursor = await append(
        ledger,
        await begin(ledger),
        backfills=(closed("running"), closed("failed", partitions=1), closed("dead")),
    )
    await claim_one(ledger, queues=("backlog",), only="running")
    mine = await claim_one(ledger, queues=("backlog",), only="failed")
    await fail(ledger, mine, permanent=True)
    mine = await claim_one(ledger, queues=("backlog",), only="dead")
    await fail(ledger, mine, permanent=True)
    await ledger.cancel("dead")
    await ledger.settle()
    assert await fold(ledger, cursor) == 0
    assert await ledger.purge("dead") == 1
    assert await fold(ledger, cursor) == 11
    assert {each.id for each in await ledger.backfills()} == {HEAD, "running", "failed"}


async def test_a_cancelled_backfill_that_never_ran_goes(ledger: Ledger) -> None:
    cursor = await append(ledger, await begin(ledger), backfills=(closed("a"),))
    await ledger.cancel("a")
    assert await fold(ledger, cursor) == 1


async def test_a_parent_goes_after_its_children(ledger: Ledger) -> None:
    cursor = await append(ledger, await begin(ledger), backfills=(closed("a", partitions=2),))
    await complete(ledger, await claim_one(ledger, queues=("backlog",)))
    await ledger.cancel("a")
    await ledger.retry_failed("a", "child")
    assert await fold(ledger, cursor) == 0
    await finish(ledger, queues=("backlog",))
    assert await fold(ledger, cursor) == 5
    assert [each.id for each in await ledger.backfills()] == [HEAD]


async def test_a_child_of_a_failed_backfill_stays_as_long_as_its_parent(ledger: Ledger) -> None:
    """Otherwise a second retry would run again what the first has completed."""
    cursor = await append(ledger, await begin(ledger), backfills=(closed("a", partitions=1),))
    await fail(ledger, await claim_one(ledger, queues=("backlog",)), permanent=True)
    await ledger.settle()
    await ledger.retry_failed("a", "child")
    await finish(ledger, queues=("backlog",))
    assert await fold(ledger, cursor) == 0
    assert (await ledger.retry_failed("a", "another")).id == "child"


async def test_a_heartbeat_for_a_backfill_that_is_gone_is_lost(
    ledger: Ledger, clock: Clock
) -> None:
    cursor = await append(ledger, await begin(ledger), 7, backfills=(closed("a", partitions=1),))
    lost = await claim_one(ledger, queues=("backlog",))
    mine = await claim_height(ledger, 7)
    clock.now += 61
    await finish(ledger, queues=("backlog",))
    assert await fold(ledger, cursor) == 2
    signals = await ledger.heartbeat([(lost, Progress()), (mine, Progress())])
    assert signals == {lost.fence: "lost", mine.fence: "go on"}


async def test_an_id_can_be_used_again_after_its_backfill_is_gone(ledger: Ledger) -> None:
    cursor = await append(ledger, await begin(ledger), backfills=(closed("a", partitions=1),))
    await finish(ledger, queues=("backlog",))
    await fold(ledger, cursor)
    await append(ledger, cursor, backfills=(closed("a", partitions=2),))
    assert len(await finish(ledger, queues=("backlog",))) == 2


# With all the rest


async def test_a_cancelled_follow_is_compacted_and_folds_no_more_of_its_chunks(
    ledger: Ledger,
) -> None:
    cursor = await append(ledger, await begin(ledger), 1, 2, 3)
    await complete(ledger, *await claim_live(ledger, 2))
    assert await fold(ledger, cursor, below=3) == 1
    await ledger.cancel(HEAD)
    assert await ledger.compact() > 0
    assert "BackfillFolded" in await event_types(ledger, HEAD)
    assert await fold(ledger, cursor) == 0
    assert await ledger.check() == []


@pytest.mark.parametrize(
    ("tampering", "problem"),
    [
        ("UPDATE counts SET folded_complete = folded_complete + 1", "counters say"),
        ("UPDATE counts SET folded_backfills = 7", "folded, the event is"),
        ("DELETE FROM events WHERE type = 'BackfillFolded'", "folded, the event is None"),
        ("DELETE FROM chunks WHERE chunk_index = 3", "chunks stand for 6 planned"),
        ("UPDATE backfills SET planned = 5", "chunks stand for 5 planned"),
        ("UPDATE chunks SET chunk_index = 99 WHERE chunk_index = 3", "4 chunks stand for 6"),
    ],
)
async def test_tampering_is_found(
    breakable: Ledger, home: Home, tampering: str, problem: str
) -> None:
    await fold(breakable, await with_every_status(breakable))
    assert await breakable.check() == []
    await home.run(tampering)
    problems = await breakable.check()
    assert any(problem in found for found in problems), problems


async def test_claims_go_on_as_before(ledger: Ledger) -> None:
    cursor = await append(ledger, await begin(ledger), *range(5))
    await complete(ledger, *await claim_live(ledger, 3))
    await fold(ledger, cursor)
    assert [each.span.first for each in await claim(ledger, 9, queues=LIVE)] == [1, 0]
