"""A standing backfill never ends by itself, is not planned ahead, and takes the newest first."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from gapless.core.backfill import State
from gapless.core.errors import Conflict, UsageError, WrongState
from gapless.core.events import BackfillCreated
from gapless.core.ranges import HIGHEST, Span
from gapless.core.retry import RetryPolicy
from gapless.core.selector import Selection
from gapless.ledger import Ledger
from gapless.ledger.records import NewChunk
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
    head,
    standing,
    step,
)
from tests.support import (
    Clock,
    beat,
    claim,
    claim_one,
    complete,
    create,
    done,
    fail,
    finish,
    request,
    state,
)

# Creating


async def test_it_begins_with_nothing(ledger: Ledger) -> None:
    backfill = await ledger.create(standing())
    assert (backfill.standing, backfill.follow, backfill.precedence) == (True, FOLLOW, 0)
    assert (backfill.partitions, backfill.chunks.total, backfill.chunks.planned) == (0, 0, 0)
    assert (backfill.state, backfill.progress_pct) == (State.PENDING, 0.0)
    created, _ = (await ledger.events(HEAD))[0]
    assert isinstance(created, BackfillCreated)
    assert (created.standing, created.follow, created.partitions) == (True, FOLLOW, 0)


async def test_its_positions_are_heights(ledger: Ledger) -> None:
    backfill = await ledger.create(standing())
    selection = await ledger.selection(backfill.selection)
    for height in (0, 18_000_000, HIGHEST):
        assert selection.partition(height) == height
        assert selection.position(height) == height
    assert list(selection.slice(7, 9)) == [7, 8, 9]


async def test_creating_it_again_returns_it_with_its_cursor(ledger: Ledger) -> None:
    cursor = await append(ledger, await begin(ledger), 7, state={"head": 7})
    again = await ledger.create(standing())
    assert again.chunks.planned == 1
    assert await ledger.cursor(FOLLOW) == cursor


async def test_a_follow_has_one_standing_backfill(ledger: Ledger) -> None:
    await ledger.create(standing())
    with pytest.raises(Conflict, match="the follow `eth` belongs to the backfill `head`"):
        await ledger.create(standing("another"))
    with pytest.raises(Conflict, match="the id `head` belongs to another backfill"):
        await ledger.create(standing(HEAD, "another"))
    assert [each.id for each in await ledger.backfills()] == [HEAD]


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"follow": None}, "needs a follow"),
        ({"group": "g"}, "cannot be in a group"),
        ({"retry": RetryPolicy.halt()}, "cannot halt"),
        ({"selection": Selection("blocks", spans=((5, 9),))}, "heights from 0 on"),
        ({"selection": Selection("static", keys=("a",))}, "heights from 0 on"),
    ],
)
def test_a_request_that_makes_no_sense_is_refused(change: dict[str, Any], problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        replace(standing(), **change)


# Living


async def test_nothing_is_planned_for_it(ledger: Ledger) -> None:
    await begin(ledger)
    assert await claim_live(ledger, 9) == []
    assert (await head(ledger)).chunks.planned == 0


async def test_it_never_ends_by_itself(ledger: Ledger) -> None:
    cursor = await begin(ledger)
    assert await ledger.settle() == []
    await append(ledger, cursor, 7)
    await complete_live(ledger)
    assert await ledger.settle() == []
    assert await ledger.settle([HEAD]) == []
    assert await state(ledger, HEAD) == "RUNNING"
    assert (await head(ledger)).progress_pct == 100


async def test_dead_letters_do_not_end_it_either(ledger: Ledger) -> None:
    await append(ledger, await begin(ledger), 7)
    await fail(ledger, await claim_height(ledger, 7), permanent=True)
    assert await ledger.settle() == []
    assert await state(ledger, HEAD) == "RUNNING"


async def test_while_it_is_paused_nothing_is_claimed_or_appended(ledger: Ledger) -> None:
    cursor = await append(ledger, await begin(ledger), 7)
    await ledger.pause(HEAD)
    assert await claim_live(ledger) == []
    for more in ({"backfills": (closed("history"),)}, {"chunks": (NewChunk(8, 8),)}):
        with pytest.raises(WrongState, match="`head` is PAUSED: nothing can be appended"):
            await ledger.append(replace(step(cursor), **more))
    cursor = await append(ledger, cursor, revoke=Span(7, 7), state={"head": 9})
    await ledger.resume(HEAD)
    await append(ledger, cursor, 10)
    await claim_height(ledger, 10)


async def test_cancelling_ends_it(ledger: Ledger) -> None:
    cursor = await append(ledger, await begin(ledger), 7, 8)
    mine = await claim_height(ledger, 8)
    await ledger.cancel(HEAD)
    assert await beat(ledger, mine) == "stop"
    with pytest.raises(WrongState, match="`head` is cancelling: nothing can be appended"):
        await ledger.append(step(cursor, 9))
    await ledger.release(mine, done())
    await ledger.settle()
    assert await state(ledger, HEAD) == "CANCELLED"
    with pytest.raises(WrongState, match="`head` is CANCELLED"):
        await ledger.append(step(cursor, state={"head": 9}))
    assert await ledger.compact() > 0
    assert await ledger.cursor(FOLLOW) == cursor


async def test_what_failed_for_good_is_not_retried_as_a_whole(ledger: Ledger) -> None:
    await append(ledger, await begin(ledger), 7)
    await fail(ledger, await claim_height(ledger, 7), permanent=True)
    with pytest.raises(WrongState, match="`head` is standing: its follow plans what failed again"):
        await ledger.retry_failed(HEAD, "child")
    await ledger.cancel(HEAD)
    with pytest.raises(WrongState, match="`head` is standing"):
        await ledger.retry_failed(HEAD, "child")


async def test_a_dead_letter_can_be_listed_retried_and_purged(ledger: Ledger) -> None:
    cursor = await append(ledger, await begin(ledger), 7, 8, NewChunk(9, 9, payload="0xabc"))
    for height in (9, 8, 7):
        await fail(ledger, await claim_height(ledger, height), permanent=True)
    letters = await ledger.dead(HEAD)
    assert [letter.partitions for letter in letters] == [("7",), ("8",), ("9",)]
    child = await ledger.retry_dead(HEAD, "child", [1])
    assert (child.standing, child.follow, child.partitions) == (False, FOLLOW, 1)
    assert (await ledger.selection(child.selection)).all_keys() == ["8"]
    with pytest.raises(WrongState, match="chunk 2 of `head` has a payload"):
        await ledger.retry_dead(HEAD, "another", [2])
    assert await ledger.purge(HEAD, [0]) == 1
    assert [letter.chunk_index for letter in await ledger.dead(HEAD)] == [2]
    await append(ledger, cursor, 7, replace=(0,))


# Claiming


async def test_the_newest_is_claimed_first(ledger: Ledger) -> None:
    cursor = await append(ledger, await begin(ledger), 7, 8)
    await append(ledger, cursor, 9, NewChunk(4, 6))
    spans = [each.span for each in await finish(ledger, queues=LIVE)]
    assert spans == [(9, 9), (8, 8), (7, 7), (4, 6)]


async def test_a_failed_chunk_that_is_due_does_not_go_before_a_newer_one(
    ledger: Ledger, clock: Clock
) -> None:
    cursor = await append(ledger, await begin(ledger), 7, 9)
    await fail(ledger, await claim_height(ledger, 9))
    cursor = await append(ledger, cursor, 8)
    clock.now += 5
    await append(ledger, cursor, 10)
    spans = [each.span.first for each in await claim_live(ledger, 3)]
    assert spans == [10, 9, 8]
    await claim_height(ledger, 7)


async def test_of_many_failed_chunks_the_newest_goes_first(ledger: Ledger, clock: Clock) -> None:
    await append(ledger, await begin(ledger), *range(20))
    for mine in reversed(await claim_live(ledger, 20)):
        await fail(ledger, mine)
        clock.now += 0.01
    clock.now += 5
    assert [each.span.first for each in await claim_live(ledger, 3)] == [19, 18, 17]


async def test_a_lost_lease_is_recovered_as_in_any_backfill(ledger: Ledger, clock: Clock) -> None:
    cursor = await append(ledger, await begin(ledger), 7)
    lost = await claim_height(ledger, 7)
    clock.now += 61
    await append(ledger, cursor, 8)
    await claim_height(ledger, 8)
    clock.now += 5
    heir = await claim_height(ledger, 7)
    assert heir.failures.lost == 1
    assert await beat(ledger, lost) == "lost"


async def test_a_payload_and_a_write_fence_reach_every_run(ledger: Ledger, clock: Clock) -> None:
    await append(ledger, await begin(ledger), NewChunk(7, 9, payload="retract", draw_fence=True), 8)
    first = await claim_one(ledger, queues=LIVE)
    assert (first.span, first.payload) == ((7, 9), "retract")
    assert first.write_fence is not None
    assert first.write_fence < first.fence
    clock.now += 61
    again = await claim_one(ledger, queues=LIVE)
    assert (again.chunk_index, again.payload) == (first.chunk_index, "retract")
    assert again.write_fence == first.write_fence < first.fence < again.fence
    (row,) = await ledger.chunks(HEAD, 0, 0)
    assert (row.payload, row.write_fence) == ("retract", first.write_fence)


async def test_an_ordinary_chunk_has_neither(ledger: Ledger) -> None:
    await create(ledger)
    mine = await claim_one(ledger)
    assert (mine.payload, mine.write_fence) == (None, None)


# Precedence


async def test_within_a_follow_the_highest_precedence_goes_first(ledger: Ledger) -> None:
    for name, precedence in (("low", 1), ("high", 3), ("middle", 2)):
        await ledger.create(closed(name, partitions=2, precedence=precedence))
    claims = await finish(ledger, queues=("backlog",))
    names = [each.backfill_id for each in claims]
    assert names == ["high", "high", "middle", "middle", "low", "low"]


async def test_what_has_nothing_to_take_lets_the_next_one_through(ledger: Ledger) -> None:
    await ledger.create(closed("high", precedence=2, max_concurrent_runs=1))
    await ledger.create(closed("low", precedence=1, max_concurrent_runs=1))
    names = [(await claim_one(ledger, queues=("backlog",))).backfill_id for _ in range(2)]
    assert names == ["high", "low"]
    assert await claim(ledger, queues=("backlog",)) == []


async def test_a_precedence_counts_within_its_queue_only(ledger: Ledger) -> None:
    await append(ledger, await begin(ledger, precedence=9), 7)
    await ledger.create(closed("history"))
    assert (await claim_one(ledger, queues=("backlog",))).backfill_id == "history"
    assert (await claim_one(ledger, queues=LIVE)).backfill_id == HEAD


async def test_only_the_named_backfill_is_claimed_whatever_its_precedence(ledger: Ledger) -> None:
    await ledger.create(closed("high", precedence=2))
    await ledger.create(closed("low", precedence=1))
    assert (await claim_one(ledger, queues=("backlog",), only="low")).backfill_id == "low"


async def test_a_follow_counts_as_one_beside_other_backfills(ledger: Ledger) -> None:
    """Ten backfills of a follow beside one other: each of the two gets about a half."""
    for number in range(10):
        await ledger.create(closed(f"history {number}", partitions=1000, max_concurrent_runs=1000))
    await ledger.create(
        request("other", queue="backlog", partitions=1000, max_concurrent_runs=1000)
    )
    taken = Counter([(await claim_one(ledger, queues=("backlog",))).backfill_id for _ in range(80)])
    assert len(taken) == 2
    assert 15 < taken["other"] < 65  # beyond that, chance is to blame once in a hundred million


async def test_of_equal_precedence_one_is_finished_before_the_next(ledger: Ledger) -> None:
    for name in ("a", "b"):
        await ledger.create(closed(name, partitions=3))
    names = [each.backfill_id for each in await finish(ledger, queues=("backlog",))]
    assert names == sorted(names, reverse=True)


async def test_a_child_of_a_closed_backfill_belongs_to_the_follow(ledger: Ledger) -> None:
    await ledger.create(closed("history", partitions=1, precedence=5))
    await fail(ledger, await claim_one(ledger, queues=("backlog",)), permanent=True)
    await ledger.settle()
    child = await ledger.retry_failed("history", "child")
    assert (child.follow, child.precedence, child.standing) == (FOLLOW, 5, False)
    await complete(ledger, await claim_one(ledger, queues=("backlog",)))
    assert await ledger.settle() == ["child"]
