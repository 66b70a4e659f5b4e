"""If ledger and sink are one database, rows and progress never disagree."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import pytest

import gapless
from gapless.blocks.same_database import same_database
from gapless.chains.opening import open_sink
from gapless.core.backfill import State
from gapless.core.ranges import RangeSet, Span
from gapless.devnode import Chain, DevNode
from gapless.ledger import Ledger, open_ledger
from tests.agreement import disagreements
from tests.conformance.fetch.stage import LAST, contents, truth
from tests.servers import PostgresServer


@pytest.fixture
def target(postgres_url: str) -> str:
    return f"{postgres_url}?schema=eth"


@pytest.fixture
async def ledger(postgres_url: str) -> AsyncIterator[Ledger]:
    opened = await open_ledger(postgres_url)
    yield opened
    assert await opened.check() == []
    await opened.close()


@pytest.fixture
async def watching(postgres_url: str) -> AsyncIterator[asyncpg.Connection]:
    connection = await asyncpg.connect(postgres_url)
    yield connection
    await connection.close()


async def fetch(url: str, target: str, node: DevNode, **options: Any) -> gapless.FetchResult:
    sizes = {"chunk_size": 50, "batch_size": 10, **options}
    return await gapless.fetch(
        "custom", f"0:{LAST}", rpc=[node.url], to=target, ledger=url, **sizes
    )


async def test_rows_and_progress_agree_at_every_moment(
    chain: Chain,
    node: DevNode,
    postgres_url: str,
    target: str,
    ledger: Ledger,
    watching: asyncpg.Connection,
) -> None:
    running = asyncio.create_task(fetch(postgres_url, target, node))
    looks = 0
    while not running.done():
        assert await disagreements(watching, "eth") == []
        looks += 1
    result = await running
    assert looks > 2
    assert (result.state, result.gaps, result.fetched) == (State.SUCCEEDED, RangeSet(), LAST + 1)
    assert await contents(target) == truth(chain, Span(0, LAST))
    assert await disagreements(watching, "eth") == []


async def test_a_reorganisation_is_repaired_in_such_transactions_too(
    chain: Chain, node: DevNode, postgres_url: str, target: str, ledger: Ledger
) -> None:
    await fetch(postgres_url, target, node, confirmations=0)
    chain.reorg(LAST - 4, extra=3)
    last = chain.head
    result = await gapless.fetch(
        "custom", f"0:{last}", rpc=[node.url], to=target, ledger=postgres_url, confirmations=0
    )
    assert (result.state, result.gaps) == (State.SUCCEEDED, RangeSet())
    assert await contents(target) == truth(chain, Span(0, last))


async def test_only_the_same_database_and_user_are_joined(
    postgres: PostgresServer,
    postgres_url: str,
    target: str,
    ledger: Ledger,
    watching: asyncpg.Connection,
) -> None:
    async with await open_sink(target) as sink:
        assert await same_database(sink, ledger) is sink
        postgres.create_database("elsewhere")  # the same server, but other locks
        async with await open_sink(target.replace(postgres_url, postgres.url("elsewhere"))) as far:
            assert await same_database(far, ledger) is None
        postgres.drop_database("elsewhere")
    await watching.execute("DROP SCHEMA eth CASCADE; CREATE ROLE reader LOGIN SUPERUSER")
    try:
        async with await open_sink(target.replace("postgres@", "reader@")) as sink:
            assert await same_database(sink, ledger) is None
    finally:
        await watching.execute("DROP OWNED BY reader; DROP ROLE reader")


async def test_files_are_never_joined(tmp_path: Any, ledger: Ledger, target: str) -> None:
    async with await open_sink(f"{tmp_path}/blocks.db") as sink:
        assert await same_database(sink, ledger) is None
    local = await open_ledger(f"{tmp_path}/ledger.db")
    async with await open_sink(target) as sink:
        assert await same_database(sink, local) is None
    await local.close()
