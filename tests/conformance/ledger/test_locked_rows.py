"""A locked row delays nothing else.

Only PostgreSQL locks rows. Here another session holds them, one that was left open after a look at
the tables, for example.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import asyncpg
import pytest

from gapless.core.errors import LedgerBusy
from gapless.ledger import Ledger
from gapless.system import Process
from tests.support import (
    PostgresHome,
    claim,
    claim_one,
    complete,
    create,
    done,
    finish,
    open_at,
    plan,
    state,
)
from tests.waiting import eventually

BOTH = ("priority", "default")


@pytest.fixture
def home(postgres_home: PostgresHome) -> PostgresHome:
    return postgres_home


@asynccontextmanager
async def locked(home: PostgresHome, rows: str) -> AsyncIterator[None]:
    """Some rows are locked by another session meanwhile."""
    stranger = await asyncpg.connect(home.url)
    try:
        async with stranger.transaction():
            assert await stranger.fetch(f"SELECT 1 FROM gapless.{rows} FOR UPDATE")
            yield
    finally:
        await stranger.close()


async def test_a_locked_backfill_does_not_stop_other_queues(
    ledger: Ledger, home: PostgresHome
) -> None:
    await create(ledger, "head", queue="priority", partitions=1)
    await create(ledger, "history", partitions=3)
    async with locked(home, "backfills WHERE id = 'head'"):
        claims = await finish(ledger, queues=BOTH)
        assert {each.backfill_id for each in claims} == {"history"}
    assert await state(ledger, "history") == "SUCCEEDED"
    assert (await claim_one(ledger, queues=BOTH)).backfill_id == "head"


async def test_a_locked_backfill_does_not_stop_others_in_its_queue(
    ledger: Ledger, home: PostgresHome
) -> None:
    await create(ledger, "locked", partitions=3)
    await create(ledger, "free", partitions=30)
    async with locked(home, "backfills WHERE id = 'locked'"):
        assert len(await finish(ledger)) == 30
    assert len(await finish(ledger)) == 3


@pytest.mark.parametrize("failed", [False, True])
async def test_locked_chunks_do_not_stop_other_backfills(
    ledger: Ledger, home: PostgresHome, failed: bool
) -> None:
    await create(ledger, "locked", partitions=3)
    await plan(ledger, "locked", 3)
    if failed:
        await home.script("UPDATE gapless.chunks SET status = 'FAILED', due = 0")
    await create(ledger, "free", partitions=5)
    async with locked(home, "chunks WHERE backfill_id = 'locked'"):
        for _ in range(5):  # whichever backfill chance selects first
            (mine,) = await claim(ledger)
            assert mine.backfill_id == "free"
            await complete(ledger, mine)
        assert await claim(ledger) == []
    assert len(await finish(ledger)) == 3


async def test_other_chunks_of_the_same_backfill_continue(
    ledger: Ledger, home: PostgresHome
) -> None:
    await create(ledger, partitions=3)
    await plan(ledger, "bf", 3)
    async with locked(home, "chunks WHERE chunk_index = 0"):
        assert [each.chunk_index for each in await claim(ledger, 3)] == [1, 2]


async def test_a_heartbeat_skips_a_locked_chunk(ledger: Ledger, home: PostgresHome) -> None:
    await create(ledger, partitions=2)
    first, second = await claim(ledger, 2)
    async with locked(home, "chunks WHERE chunk_index = 0"):
        signals = await ledger.heartbeat([(first, done()), (second, done())])
    assert signals == {first.fence: "held", second.fence: "go on"}
    assert await ledger.heartbeat([(first, done())]) == {first.fence: "go on"}


async def test_a_locked_backfill_does_not_keep_others_from_ending(
    ledger: Ledger, home: PostgresHome
) -> None:
    for name in ("a", "b"):
        await create(ledger, name, partitions=1)
        await complete(ledger, await claim_one(ledger, only=name))
    async with locked(home, "backfills WHERE id = 'a'"):
        assert await ledger.settle() == ["b"]
    assert await ledger.settle() == ["a"]


async def test_a_starting_worker_does_not_wait_for_a_locked_chunk(
    ledger: Ledger, home: PostgresHome
) -> None:
    gone = Process("host", 1, "then")
    await ledger.register("worker", gone, {"default": 1})
    await create(ledger, partitions=2)
    await claim(ledger, 2)
    async with locked(home, "chunks WHERE chunk_index = 0"):
        assert await ledger.free_dead(gone, lambda _: False) == 1


async def test_an_outcome_that_meets_a_lock_soon_says_so(
    ledger: Ledger, home: PostgresHome
) -> None:
    await create(ledger, partitions=1)
    mine = await claim_one(ledger)
    began = time.monotonic()
    async with locked(home, "chunks"):
        with pytest.raises(LedgerBusy, match="are locked"):
            await ledger.complete([mine])
    assert time.monotonic() - began < 15  # a quarter of a lease
    await complete(ledger, mine)


async def test_a_claim_that_finds_only_locked_work_soon_returns(
    ledger: Ledger, home: PostgresHome
) -> None:
    await create(ledger, partitions=1)
    other = await open_at(home)
    async with locked(home, "backfills"):
        began = time.monotonic()
        assert await claim(other) == []
        assert time.monotonic() - began < 5
    await other.close()


async def test_a_claim_waits_for_work_that_is_locked_only_for_a_moment(
    ledger: Ledger, home: PostgresHome
) -> None:
    await create(ledger, partitions=1)
    async with locked(home, "backfills"):
        waiting = asyncio.create_task(claim_one(ledger))
        await asyncio.sleep(0.3)  # a crowd of workers may lock it that long, one after another
    assert (await waiting).backfill_id == "bf"


@pytest.mark.parametrize("change", ["state = 'PAUSED'", "stopping = 'cancel'", "queue = 'backlog'"])
async def test_a_claim_that_waited_obeys_what_the_holder_of_the_lock_changed(
    breakable: Ledger, home: PostgresHome, change: str
) -> None:
    async def waits() -> bool:
        waiting = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
        return await home.run(f"{waiting} AND datname = current_database()") != []

    await create(breakable, partitions=1)
    await plan(breakable, "bf", 1)
    stranger = await asyncpg.connect(home.url)
    async with stranger.transaction():
        await stranger.execute(f"UPDATE gapless.backfills SET {change}")
        waiting = asyncio.create_task(claim(breakable))
        await eventually(waits)
    assert await waiting == []
    await stranger.close()
