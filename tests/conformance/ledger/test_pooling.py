"""A transaction-pooling proxy may be between a ledger and PostgreSQL."""

from __future__ import annotations

import asyncio

import pytest

from gapless.core.errors import UsageError
from gapless.ledger import Ledger, open_ledger
from gapless.ledger.database import LedgerTransaction
from tests.pooler import pooler
from tests.support import PostgresHome, claim, complete, create, database_of, done, finish


def prepares(ledger: Ledger) -> bool:
    return bool(vars(database_of(ledger))["_prepared"])


async def test_prepared_statements_are_used_without_a_pooler(postgres_home: PostgresHome) -> None:
    ledger = await open_ledger(postgres_home.url)
    await create(ledger, partitions=20)
    await finish(ledger)
    assert prepares(ledger)
    await ledger.close()


async def test_a_url_option_turns_them_off(postgres_home: PostgresHome) -> None:
    ledger = await open_ledger(f"{postgres_home.url}?prepared_statements=off&application_name=me")
    assert not prepares(ledger)
    await create(ledger, partitions=20)
    await finish(ledger)
    assert await ledger.check() == []
    await ledger.close()


async def test_the_option_accepts_no_other_value(postgres_home: PostgresHome) -> None:
    with pytest.raises(UsageError, match="`prepared_statements` is `on` or `off`, not `0`"):
        await open_ledger(f"{postgres_home.url}?prepared_statements=0")


@pytest.mark.parametrize("option", ["", "?prepared_statements=off"])
async def test_a_ledger_works_through_a_pooler(postgres_home: PostgresHome, option: str) -> None:
    async with pooler(postgres_home.url) as url:
        first, second = [await open_ledger(url + option) for _ in range(2)]
        await create(first, partitions=600, max_concurrent_runs=100)

        async def work(ledger: Ledger) -> list[int]:
            mine: list[int] = []
            while claims := await claim(ledger, 7):
                await complete(ledger, *claims)
                mine += [each.chunk_index for each in claims]
            return mine

        taken = await asyncio.gather(work(first), work(second), work(first), work(second))
        assert sorted(index for mine in taken for index in mine) == list(range(600))
        assert not prepares(first)
        assert not prepares(second)
        assert await first.check() == []
        await asyncio.gather(first.close(), second.close())


async def test_nothing_depends_on_a_session_that_others_share(postgres_home: PostgresHome) -> None:
    async def settings(tx: LedgerTransaction) -> tuple[int, str]:
        ((first,),) = await tx.execute("SELECT pg_current_xact_id()")
        ((second,),) = await tx.execute("SELECT pg_current_xact_id()")
        ((plans,),) = await tx.execute("SHOW plan_cache_mode")
        return second - first, plans

    async with pooler(postgres_home.url) as url:
        ledger = await open_ledger(url)
        found = await database_of(ledger).transact(settings, atomic=False)
        assert found == (0, "force_generic_plan"), "it is one transaction with its own settings"
        await ledger.close()
    assert await postgres_home.run("SHOW plan_cache_mode") == [("auto",)]


async def test_jobs_may_write_through_a_pooler(postgres_home: PostgresHome) -> None:
    async with pooler(postgres_home.url) as url:
        ledger = await open_ledger(url)
        await create(ledger, partitions=3)
        for each in await claim(ledger, 3):
            async with ledger.holding(each, done) as tx:
                ((answer,),) = await tx.execute("SELECT :given::bigint", given=each.chunk_index)
                assert answer == each.chunk_index
        await ledger.close()
