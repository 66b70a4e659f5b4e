"""A PostgreSQL server that stops answering costs seconds, and never a lease."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator

import pytest

from gapless.core.errors import LedgerUnreachable
from gapless.ledger import Ledger, open_ledger
from gapless.ledger.database import LedgerTransaction
from gapless.ledger.postgres import PostgresDatabase
from tests.silencer import Silencer, silencer
from tests.support import PostgresHome, claim_one, complete, create, database_of, done

LEASE = 60.0  # for the requests of these tests


@pytest.fixture
async def proxy(postgres_home: PostgresHome) -> AsyncIterator[Silencer]:
    async with silencer(postgres_home.url) as proxy:
        yield proxy


@pytest.fixture
async def ledger(proxy: Silencer) -> AsyncIterator[Ledger]:
    ledger = await open_ledger(proxy.url)
    yield ledger
    await ledger.close()


async def test_a_heartbeat_over_a_silent_connection_arrives_in_time(
    ledger: Ledger, proxy: Silencer
) -> None:
    await create(ledger, partitions=1)
    mine = await claim_one(ledger)
    proxy.silence()
    began = time.monotonic()
    assert await ledger.heartbeat([(mine, done())]) == {mine.fence: "go on"}
    assert time.monotonic() - began < LEASE / 4
    await complete(ledger, mine)


async def test_a_server_that_never_answers_is_given_up_within_part_of_a_lease(
    ledger: Ledger, proxy: Silencer
) -> None:
    await create(ledger, partitions=1)
    mine = await claim_one(ledger)
    proxy.silence()
    proxy.accepting = False
    began = time.monotonic()
    with pytest.raises(LedgerUnreachable, match="does not answer"):
        await ledger.heartbeat([(mine, done())])
    assert time.monotonic() - began < LEASE / 2
    proxy.accepting = True
    await complete(ledger, mine)


async def test_silence_in_a_transaction_is_not_waited_for_twice(
    ledger: Ledger, proxy: Silencer
) -> None:
    """Not for the statement and then again for its rollback."""

    async def body(tx: LedgerTransaction) -> list[bool]:
        if not tx.again:
            proxy.silence()
        await tx.execute("SELECT 1")
        return [tx.again]

    began = time.monotonic()
    assert await database_of(ledger).transact(body, within=1.0) == [True]
    assert time.monotonic() - began < 4


async def test_the_server_itself_ends_a_statement_that_takes_too_long(ledger: Ledger) -> None:
    async def body(tx: LedgerTransaction) -> bool:
        if not tx.again:
            await tx.execute("SELECT pg_sleep(60)")
        return tx.again

    assert await database_of(ledger).transact(body, within=0.2)


async def test_a_statement_of_a_job_may_take_longer(postgres_home: PostgresHome) -> None:
    database = PostgresDatabase(postgres_home.url, "shown", dict)
    await database.open()
    async with database.session() as tx:
        (row,) = await tx.execute("SHOW statement_timeout")
        assert row[0] == "0"
    await database.close()
