"""Dead letters name what is missing; each can be retried or purged once."""

from __future__ import annotations

import asyncio

import pytest

from gapless.core.chunk import FailureCounts, Status
from gapless.core.errors import UsageError
from gapless.ledger import Ledger
from tests.support import Home, claim, complete, create, done, fail, finish, plan, state, statuses


async def kill(ledger: Ledger, backfill_id: str = "bf", dead: int = 2) -> None:
    """Of three chunks of four blocks each, the first `dead` ones fail after one block."""
    await create(ledger, backfill_id, partitions=12, chunk_size=4)
    claims = await claim(ledger, 3)
    for each in claims[:dead]:
        await fail(ledger, each, done(each.span.first), permanent=True)
    await complete(ledger, *claims[dead:])


async def test_a_dead_letter_names_the_missing_partitions(ledger: Ledger) -> None:
    await kill(ledger, dead=1)
    (letter,) = await ledger.dead()
    assert (letter.chunk_id, letter.job, letter.attempts) == ("bf:0", "copy", 1)
    assert letter.partitions == ("101 to 103",)
    assert list(letter.missing) == [1, 2, 3]
    assert (letter.error_class, letter.error_message) == ("Boom", "it broke")


async def test_dead_letters_are_listed_by_backfill_or_all_together(ledger: Ledger) -> None:
    await kill(ledger, "a")
    await kill(ledger, "b")
    assert [letter.chunk_id for letter in await ledger.dead()] == ["a:0", "a:1", "b:0", "b:1"]
    assert [letter.chunk_id for letter in await ledger.dead("b")] == ["b:0", "b:1"]
    assert [letter.chunk_id for letter in await ledger.dead(limit=3)] == ["a:0", "a:1", "b:0"]
    assert await ledger.dead("no such") == []


async def test_retrying_some_creates_a_child_and_removes_them_from_the_list(ledger: Ledger) -> None:
    await kill(ledger)
    child = await ledger.retry_dead("bf", "child", [1])
    assert (await ledger.selection(child.selection)).all_keys() == ["105", "106", "107"]
    assert [letter.chunk_id for letter in await ledger.dead()] == ["bf:0"]
    await finish(ledger)
    assert await state(ledger, "child") == "SUCCEEDED"


async def test_a_retried_dead_letter_starts_a_new_count(ledger: Ledger) -> None:
    await kill(ledger)
    assert [letter.attempts for letter in await ledger.dead()] == [1, 1]
    await ledger.retry_dead("bf", "child", [0])
    (mine,) = await claim(ledger, only="child")
    assert mine.failures == FailureCounts()


async def test_retrying_the_same_again_returns_the_same_child(ledger: Ledger) -> None:
    await kill(ledger)
    child = await ledger.retry_dead("bf", "child", [1, 0])
    assert await ledger.retry_dead("bf", "other", [0, 1, 1]) == child
    assert len(await ledger.backfills()) == 2


async def test_a_dead_letter_can_be_retried_while_its_backfill_runs(ledger: Ledger) -> None:
    await create(ledger, partitions=2)
    first, second = await claim(ledger, 2)
    await fail(ledger, first, permanent=True)
    await ledger.retry_dead("bf", "child", [0])
    await complete(ledger, second)
    await finish(ledger)
    assert (await state(ledger), await state(ledger, "child")) == ("FAILED", "SUCCEEDED")


@pytest.mark.parametrize("indices", [[2], [0, 99]])
async def test_only_a_dead_letter_can_be_retried(ledger: Ledger, indices: list[int]) -> None:
    await kill(ledger)
    with pytest.raises(UsageError, match=f"chunk {indices[-1]} of `bf` is not a dead letter"):
        await ledger.retry_dead("bf", "child", indices)


async def test_retrying_no_chunk_at_all_is_refused(ledger: Ledger) -> None:
    await kill(ledger)
    with pytest.raises(UsageError, match="nothing to retry"):
        await ledger.retry_dead("bf", "child", [])


async def test_purging_removes_them_from_the_list_but_not_from_the_count(ledger: Ledger) -> None:
    await kill(ledger)
    assert await ledger.purge("bf", [0, 2, 99]) == 1
    assert [letter.chunk_id for letter in await ledger.dead()] == ["bf:1"]
    assert await ledger.purge("bf") == 1
    assert await ledger.purge("bf") == 0
    assert (await statuses(ledger))[:2] == [Status.ABANDONED] * 2
    await ledger.settle()
    assert await state(ledger) == "FAILED"


async def test_retry_failed_covers_purged_dead_letters(ledger: Ledger) -> None:
    await kill(ledger)
    await ledger.settle()
    await ledger.purge("bf")
    child = await ledger.retry_failed("bf", "child")
    assert child.partitions == 6


async def test_a_dead_letter_that_lacks_nothing_cannot_be_retried(ledger: Ledger) -> None:
    await create(ledger, partitions=2, chunk_size=2)
    (mine,) = await claim(ledger)
    await fail(ledger, mine, done(1), permanent=True)
    with pytest.raises(UsageError, match="nothing to retry"):
        await ledger.retry_dead("bf", "child", [0])


async def test_any_number_of_dead_letters_is_retried_at_once(breakable: Ledger, home: Home) -> None:
    """Every other of 40,000 chunks has failed."""
    await create(breakable, partitions=80_000, chunk_size=2)
    await plan(breakable, "bf", 40_000)
    table = "chunks" if home.url.startswith("sqlite") else "gapless.chunks"
    await home.run(
        f"UPDATE {table} SET status = 'ABANDONED', error_class = 'Boom', error_message = '',"
        " ended_at = 0 WHERE chunk_index % 2 = 0"
    )
    wanted = list(range(0, 40_000, 2))
    async with asyncio.timeout(30):  # it takes a second or two
        child = await breakable.retry_dead("bf", "child", wanted)
        again = await breakable.retry_dead("bf", "other", wanted[::-1])
    assert child.id == again.id == "child"
    assert child.partitions == 40_000
    assert await breakable.dead("bf") == []
    assert len(child.retry_request_id or "") < 100
