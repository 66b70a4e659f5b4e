"""A transaction-pooling proxy may be between a ledger and PostgreSQL."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from urllib.parse import urlsplit

import asyncpg
import pytest

from gapless.core.errors import UsageError
from gapless.ledger import Ledger, open_ledger
from gapless.ledger.database import LedgerTransaction
from tests.pooler import pooler
from tests.support import PostgresHome, claim, complete, create, database_of, done, finish

WATCH = """
CREATE TABLE public.seen (
    names text, durable text, plans text, isolation text, longest text, idle text);
CREATE FUNCTION public.see() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO public.seen VALUES (
        TG_TABLE_NAME, current_setting('synchronous_commit'), current_setting('plan_cache_mode'),
        current_setting('transaction_isolation'), current_setting('statement_timeout'),
        current_setting('idle_in_transaction_session_timeout'));
    RETURN NULL;
END $$;
CREATE TRIGGER see AFTER UPDATE ON gapless.chunks EXECUTE FUNCTION public.see();
CREATE TRIGGER see AFTER INSERT ON gapless.counts EXECUTE FUNCTION public.see();
"""
"""Records the settings of the transactions that claim and complete."""

CARELESS = {
    "synchronous_commit": "off",
    "default_transaction_isolation": "'repeatable read'",
    "statement_timeout": "0",
    "idle_in_transaction_session_timeout": "0",
}


@pytest.fixture(params=["of no server", "of one server"])
async def proxy(request: pytest.FixtureRequest, postgres_home: PostgresHome) -> AsyncIterator[str]:
    """The URL of a pooler, by the process id that it tells its clients."""
    async with pooler(postgres_home.url, passes_key=request.param == "of one server") as url:
        yield url


def may_prepare(ledger: Ledger) -> bool:
    """Whether prepared statements are neither turned off nor have failed."""
    return vars(database_of(ledger))["_prepared"] is not False


async def test_prepared_statements_are_used_without_a_pooler(postgres_home: PostgresHome) -> None:
    ledger = await open_ledger(postgres_home.url)
    await create(ledger, partitions=20)
    await finish(ledger)
    assert may_prepare(ledger)
    await ledger.close()


async def test_a_url_option_turns_them_off(postgres_home: PostgresHome) -> None:
    ledger = await open_ledger(f"{postgres_home.url}?prepared_statements=off&application_name=me")
    assert not may_prepare(ledger)
    await create(ledger, partitions=20)
    await finish(ledger)
    assert await ledger.check() == []
    await ledger.close()


async def test_the_option_accepts_no_other_value(postgres_home: PostgresHome) -> None:
    with pytest.raises(UsageError, match="`prepared_statements` is `on` or `off`, not `0`"):
        await open_ledger(f"{postgres_home.url}?prepared_statements=0")


@pytest.mark.parametrize("option", ["", "?prepared_statements=on", "?prepared_statements=off"])
async def test_a_ledger_works_through_a_pooler(proxy: str, option: str) -> None:
    first, second = [await open_ledger(proxy + option) for _ in range(2)]
    await create(first, partitions=600, max_concurrent_runs=100)

    async def work(ledger: Ledger) -> list[int]:
        mine: list[int] = []
        while claims := await claim(ledger, 7):
            await complete(ledger, *claims)
            mine += [each.chunk_index for each in claims]
        return mine

    taken = await asyncio.gather(work(first), work(second), work(first), work(second))
    assert sorted(index for mine in taken for index in mine) == list(range(600))
    if option:
        assert not may_prepare(first)
        assert not may_prepare(second)
    assert await first.check() == []
    await asyncio.gather(first.close(), second.close())


async def test_a_connection_that_is_not_direct_prepares_nothing(
    postgres_home: PostgresHome,
) -> None:
    async def prepared(tx: LedgerTransaction) -> int:
        await tx.fetch("latest_fence")
        ((count,),) = await tx.execute("SELECT count(*) FROM pg_prepared_statements")
        return int(count)

    async def prepared_through(url: str) -> int:
        ledger = await open_ledger(url)
        found = await database_of(ledger).transact(prepared)
        await ledger.close()
        return found

    async with pooler(postgres_home.url, size=1) as url:
        assert await prepared_through(url) == 0
        assert await prepared_through(f"{url}?prepared_statements=on") == 1
    assert await prepared_through(postgres_home.url) == 1


@pytest.mark.parametrize("passes_key", [False, True])
@pytest.mark.parametrize("size", [0, 1, 3])
async def test_every_transaction_is_durable_whatever_is_in_between(
    fresh_postgres_home: PostgresHome, size: int, passes_key: bool
) -> None:
    """Size 0 is a direct connection."""
    home = fresh_postgres_home
    await (await open_ledger(home.url)).close()
    await home.script(WATCH)
    for name, value in CARELESS.items():
        await home.script(f"ALTER DATABASE {urlsplit(home.url).path[1:]} SET {name} = {value}")
    assert await home.run("SHOW synchronous_commit") == [("off",)]
    async with AsyncExitStack() as stack:
        url = home.url
        if size:
            url = await stack.enter_async_context(pooler(url, size, passes_key=passes_key))
        ledger = await open_ledger(url)
        await create(ledger, partitions=40, max_concurrent_runs=40)

        async def work() -> None:
            while claims := await claim(ledger, 3):
                await complete(ledger, *claims)

        await asyncio.gather(*[work() for _ in range(4)])
        assert await ledger.check() == []
        await ledger.close()
    found = await home.run("SELECT DISTINCT * FROM public.seen ORDER BY names")
    settings = ("on", "force_generic_plan", "read committed", "5s", "10s")
    assert found == [("chunks", *settings), ("counts", *settings)]


async def test_a_session_that_others_share_keeps_its_settings(
    postgres_home: PostgresHome, proxy: str
) -> None:
    async def settings(tx: LedgerTransaction) -> str:
        ((plans,),) = await tx.execute("SHOW plan_cache_mode")
        return str(plans)

    ledger = await open_ledger(proxy)
    for atomic in (True, False):
        assert await database_of(ledger).transact(settings, atomic=atomic) == "force_generic_plan"
    await ledger.close()
    for _ in range(3):
        shared = await asyncpg.connect(proxy, statement_cache_size=0)
        assert await shared.fetchval("SHOW plan_cache_mode") == "auto"
        await shared.close()


async def test_jobs_may_write_through_a_pooler(proxy: str) -> None:
    ledger = await open_ledger(proxy)
    await create(ledger, partitions=3)
    for each in await claim(ledger, 3):
        async with ledger.holding(each, done) as tx:
            ((answer,),) = await tx.execute("SELECT :given::bigint", given=each.chunk_index)
            assert answer == each.chunk_index
    await ledger.close()
