"""Specific to PostgreSQL: broken connections, server crashes, consistent reads."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import asyncpg
import pytest

from gapless.core.errors import LedgerError, LedgerUnreachable
from gapless.ledger import Ledger, open_ledger, views
from gapless.ledger.database import LedgerTransaction
from gapless.ledger.postgres import PostgresDatabase
from gapless.ledger.records import Backfill
from gapless.postgres.connections import literal
from tests.servers import PostgresServer
from tests.support import (
    Clock,
    PostgresHome,
    claim,
    claim_one,
    complete,
    create,
    database_of,
    done,
    finish,
    open_at,
    state,
)


@pytest.fixture
def home(postgres_home: PostgresHome) -> PostgresHome:
    return postgres_home


@pytest.fixture
async def ledger(home: PostgresHome, clock: Clock) -> AsyncIterator[Ledger]:
    ledger = await open_at(home, clock)
    yield ledger
    assert await ledger.check() == []
    await ledger.close()


@pytest.fixture
async def other(home: PostgresHome, clock: Clock) -> AsyncIterator[Ledger]:
    ledger = await open_at(home, clock)
    yield ledger
    await ledger.close()


BREAK = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid()
"""


async def test_a_transaction_runs_again_after_a_broken_connection(
    ledger: Ledger, home: PostgresHome
) -> None:
    tries: list[bool] = []

    async def body(tx: LedgerTransaction) -> Backfill:
        tries.append(tx.again)
        if not tx.again:
            await home.run(BREAK)
        return await views.backfill(tx, "bf")

    await create(ledger)
    assert (await database_of(ledger).transact(body)).id == "bf"
    assert tries == [False, True]


async def test_a_statement_that_a_proxy_forgot_runs_again_unprepared(ledger: Ledger) -> None:
    tries: list[bool] = []

    async def body(tx: LedgerTransaction) -> Backfill:
        tries.append(tx.again)
        await views.backfill(tx, "bf")
        await tx.execute("DEALLOCATE ALL")  # as if a proxy gave us another connection
        return await views.backfill(tx, "bf")

    await create(ledger)
    assert (await database_of(ledger).transact(body)).id == "bf"
    assert tries == [False, True]
    assert (await database_of(ledger).transact(body)).id == "bf"
    assert len(tries) == 3


async def test_prepared_statements_can_be_turned_off(home: PostgresHome) -> None:
    ledger = await open_ledger(f"{home.url}?prepared_statements=off&application_name=quiet")
    await create(ledger, partitions=2)
    await finish(ledger)
    assert await state(ledger) == "SUCCEEDED"
    assert await home.run("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'quiet'")
    await ledger.close()


async def test_retries_are_limited_by_patience(home: PostgresHome) -> None:
    database = PostgresDatabase(home.url, "shown", dict, patience=0.1)
    await database.open()

    async def body(_: LedgerTransaction) -> None:
        raise ConnectionResetError(f"lost {home.url}")

    with pytest.raises(LedgerUnreachable, match=r"the ledger `shown` does not answer: .* shown"):
        await database.transact(body)
    await database.close()


async def test_an_error_raised_by_the_body_is_not_retried(ledger: Ledger) -> None:
    tries = []

    async def body(tx: LedgerTransaction) -> None:
        tries.append(tx.again)
        await tx.execute("SELECT 1 / 0")

    with pytest.raises(Exception, match="division by zero"):
        await database_of(ledger).transact(body)
    assert tries == [False]


async def test_the_ledger_works_again_after_a_server_crash(
    ledger: Ledger, postgres: PostgresServer
) -> None:
    await create(ledger, partitions=3)
    mine = await claim_one(ledger)
    await asyncio.to_thread(postgres.restart_immediate)
    await complete(ledger, mine)
    await finish(ledger)
    assert await state(ledger) == "SUCCEEDED"


async def test_a_reader_sees_a_consistent_snapshot(ledger: Ledger, other: Ledger) -> None:
    await create(ledger, partitions=3)
    mine = await claim_one(ledger)

    async def body(tx: LedgerTransaction) -> None:
        before = await views.backfill(tx, "bf")
        await complete(other, mine)
        assert await views.backfill(tx, "bf") == before
        assert (await views.chunk_facts(tx, "bf"))[0].ended is None

    await database_of(ledger).transact(body, write=False)
    assert (await ledger.backfill("bf")).chunks.complete == 1


async def test_an_open_job_transaction_keeps_others_from_taking_the_chunk(
    ledger: Ledger, other: Ledger, clock: Clock
) -> None:
    await create(ledger, partitions=1)
    mine = await claim_one(ledger)
    async with ledger.holding(mine, done):
        clock.now += 1000
        assert await claim(other) == []
    assert await claim(other) == []
    await complete(ledger, mine)


async def test_a_connection_that_breaks_in_a_jobs_transaction_is_a_ledger_error(
    ledger: Ledger, home: PostgresHome
) -> None:
    await create(ledger, partitions=1)
    mine = await claim_one(ledger)

    async def breaks() -> None:
        async with ledger.holding(mine, lambda: done(0)):
            await home.run(BREAK)

    with pytest.raises(LedgerUnreachable):
        await breaks()
    (row,) = await ledger.chunks("bf")
    assert row.progress.last_processed is None
    await complete(ledger, mine)


async def test_an_exception_in_a_jobs_transaction_is_not_translated(ledger: Ledger) -> None:
    await create(ledger, partitions=1)
    mine = await claim_one(ledger)

    async def raises() -> None:
        async with ledger.holding(mine, lambda: done(0)):
            raise ConnectionResetError("by the job's own peer")

    with pytest.raises(ConnectionResetError, match="own peer"):
        await raises()
    await complete(ledger, mine)


async def test_new_work_wakes_other_processes(ledger: Ledger, other: Ledger) -> None:
    woken = asyncio.Event()
    other.on_notify(woken.set)
    await create(ledger)
    async with asyncio.timeout(30):
        while not woken.is_set():
            await ledger.resume("bf")


async def test_closing_after_the_connection_broke_is_quiet(home: PostgresHome) -> None:
    ledger = await open_at(home)
    await create(ledger)
    await home.run(BREAK)
    await ledger.close()


async def test_a_user_without_privileges_gets_a_clear_error(home: PostgresHome) -> None:
    await home.script("DROP ROLE IF EXISTS stranger; CREATE ROLE stranger LOGIN")
    url = home.url.replace("postgres@", "stranger@", 1)
    with pytest.raises(LedgerUnreachable, match="permission denied"):
        await open_ledger(url)


async def test_commits_are_durable_whatever_the_roles_settings_are(home: PostgresHome) -> None:
    """Otherwise a fence that a claim has drawn could be drawn again after a crash."""

    async def setting(tx: LedgerTransaction) -> str:
        (row,) = await tx.execute("SHOW synchronous_commit")
        return str(row[0])

    await home.script("ALTER ROLE postgres SET synchronous_commit = off")
    try:
        assert await home.run("SHOW synchronous_commit") == [("off",)]
        ledger = await open_at(home)
        assert await database_of(ledger).transact(setting) == "on"
        assert await database_of(ledger).transact(setting, atomic=False) == "on"
        await create(ledger, partitions=1)
        async with ledger.holding(await claim_one(ledger), done) as tx:
            assert await setting(tx) == "on"
        await ledger.close()
    finally:
        await home.script("ALTER ROLE postgres RESET synchronous_commit")


async def in_transaction(tx: LedgerTransaction) -> bool:
    """Whether two statements are in the same transaction."""
    first, second = [await tx.execute("SELECT pg_current_xact_id()") for _ in range(2)]
    return bool(first[0][0] == second[0][0])


async def test_each_statement_may_be_a_transaction_of_its_own(ledger: Ledger) -> None:
    database = database_of(ledger)
    assert await database.transact(in_transaction)
    assert not await database.transact(in_transaction, atomic=False)


@pytest.mark.parametrize("conforming", ["on", "off"])
async def test_any_text_can_be_a_literal(home: PostgresHome, conforming: str) -> None:
    connection = await asyncpg.connect(home.url)
    await connection.execute(f"SET standard_conforming_strings = {conforming}")
    for text in ["", "it's", "\\", "\\'", "''; SELECT 1; --", "\\x41", "$1", "a\nb", "é€😀"]:
        assert await connection.fetchval(f"SELECT {literal(text)}::text") == text
    assert await connection.fetchval(f"SELECT {literal(None)}::text") is None
    assert await connection.fetchval(f"SELECT {literal(1.25)}::float8") == 1.25
    await connection.close()


async def test_a_completion_that_fails_leaves_a_connection_that_works(
    ledger: Ledger, home: PostgresHome
) -> None:
    async def wrong(tx: LedgerTransaction) -> None:
        await tx.execute("SELECT 1 / 0")

    async def session(tx: LedgerTransaction) -> int:
        ((pid,),) = await tx.execute("SELECT pg_backend_pid()")
        return int(pid)

    database = database_of(ledger)
    before = await database.transact(session, atomic=False)
    with pytest.raises(LedgerError, match="division by zero"):
        await database.transact(wrong, atomic=False)
    assert await database.transact(session, atomic=False) == before
    await home.run(BREAK)
    assert await database.transact(session, atomic=False) != before
