"""Claims that others wait for lock nothing while they wait for the disk.

Only PostgreSQL locks rows. Here a commit takes as long as the test wants: the server waits for a
standby that does not exist.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import asyncpg
import pytest

from gapless.ledger import Ledger
from tests.support import PostgresHome, claim_one, complete, create, open_at, state
from tests.waiting import eventually

WRITE = "SELECT pg_logical_emit_message(true, 'test', '')"


@pytest.fixture
def home(postgres_home: PostgresHome) -> PostgresHome:
    return postgres_home


@pytest.fixture
async def ledger(home: PostgresHome) -> AsyncIterator[Ledger]:
    """A ledger whose role would not wait for the disk by default."""
    await home.script("ALTER ROLE postgres SET synchronous_commit = off")
    try:
        ledger = await open_at(home)
        yield ledger
        await ledger.close()
    finally:
        await home.script("ALTER ROLE postgres RESET synchronous_commit")


@asynccontextmanager
async def stalled(home: PostgresHome) -> AsyncIterator[None]:
    """Meanwhile, no commit that waits for the disk returns."""

    async def stalls() -> bool:
        return await home.run("SELECT 1 FROM pg_stat_activity WHERE wait_event = 'SyncRep'") != []

    async def write() -> None:
        while True:
            await probe.execute(f"BEGIN; SET LOCAL synchronous_commit = on; {WRITE}; COMMIT")

    probe = await asyncpg.connect(home.url)
    writing = asyncio.create_task(write())
    try:
        await set_standby(home, "SET synchronous_standby_names = 'nobody'")
        await eventually(stalls)
        yield
    finally:
        await set_standby(home, "RESET synchronous_standby_names")
        writing.cancel()
        await asyncio.wait([writing])
        probe.terminate()


async def set_standby(home: PostgresHome, change: str) -> None:
    await home.run(f"ALTER SYSTEM {change}")
    await home.run("SELECT pg_reload_conf()")


async def waiting_for_disk(home: PostgresHome) -> int:
    """How many commits wait, the probe's included."""
    ((waiting,),) = await home.run(
        "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
    )
    return int(waiting)


async def claimed(home: PostgresHome) -> bool:
    return await home.run("SELECT 1 FROM gapless.chunks WHERE status = 'RUNNING'") != []


async def test_a_claim_that_had_to_wait_keeps_no_lock_while_it_waits_for_the_disk(
    ledger: Ledger, home: PostgresHome
) -> None:
    async def waits() -> bool:
        return await home.run("SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock'") != []

    await create(ledger, partitions=2)
    holder = await asyncpg.connect(home.url)
    async with stalled(home):
        await holder.execute("BEGIN; SELECT 1 FROM gapless.backfills FOR UPDATE")
        claiming = asyncio.create_task(claim_one(ledger))
        await eventually(waits)
        await holder.execute("ROLLBACK")
        await eventually(lambda: claimed(home))
        await home.run("SELECT 1 FROM gapless.backfills FOR UPDATE NOWAIT")
        assert not claiming.done()
    await holder.close()
    await complete(ledger, await claiming)


async def test_a_claim_that_nobody_waits_for_is_shown_when_it_is_on_disk(
    ledger: Ledger, home: PostgresHome
) -> None:
    async def commits() -> bool:
        return await waiting_for_disk(home) == 2

    await create(ledger, partitions=2)
    async with stalled(home):
        claiming = asyncio.create_task(claim_one(ledger))
        await eventually(commits)
        assert not await claimed(home)
    await complete(ledger, await claiming)


async def test_the_end_of_a_backfill_is_shown_when_it_is_on_disk(
    ledger: Ledger, home: PostgresHome
) -> None:
    async def settles() -> bool:
        return await waiting_for_disk(home) == 2

    await create(ledger, partitions=1)
    await complete(ledger, await claim_one(ledger))
    async with stalled(home):
        settling = asyncio.create_task(ledger.settle())
        await eventually(settles)
        assert await state(ledger) == "RUNNING"
    assert await settling == ["bf"]
    assert await state(ledger) == "SUCCEEDED"
