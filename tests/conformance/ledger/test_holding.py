"""A job's own effects commit together with its progress, or not at all."""

from __future__ import annotations

from typing import Any

import pytest

from gapless.core.errors import LeaseLost
from gapless.ledger import Ledger
from gapless.ledger.database import LedgerTransaction
from tests.support import Clock, Home, claim_one, complete, create, done


@pytest.fixture
def home(fresh_home: Home) -> Home:
    """A separate database, because the test adds a table."""
    return fresh_home


async def store(tx: LedgerTransaction, height: int) -> None:
    await tx.execute("CREATE TABLE IF NOT EXISTS stored (height BIGINT)")
    await tx.execute("INSERT INTO stored VALUES (:height)", height=height)


async def stored(home: Home) -> list[Any]:
    prefix = "" if home.url.startswith("sqlite") else "public."
    return [row[0] for row in await home.run(f"SELECT height FROM {prefix}stored ORDER BY 1")]


async def test_effects_and_progress_commit_together(ledger: Ledger, home: Home) -> None:
    await create(ledger, partitions=10, chunk_size=10)
    mine = await claim_one(ledger)
    async with ledger.holding(mine, lambda: done(1)) as tx:
        await store(tx, 100)
        await store(tx, 101)
    assert await stored(home) == [100, 101]
    (row,) = await ledger.chunks("bf")
    assert row.progress.last_processed == 1


async def test_an_error_rolls_back_both(ledger: Ledger, home: Home) -> None:
    await create(ledger, partitions=10, chunk_size=10)
    mine = await claim_one(ledger)
    async with ledger.holding(mine, lambda: done(0)) as tx:
        await store(tx, 100)

    async def fails() -> None:
        async with ledger.holding(mine, lambda: done(1)) as tx:
            await store(tx, 101)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await fails()
    assert await stored(home) == [100]
    (row,) = await ledger.chunks("bf")
    assert row.progress.last_processed == 0
    await complete(ledger, mine)


async def test_an_error_while_reporting_the_progress_rolls_back_both(
    ledger: Ledger, home: Home
) -> None:
    await create(ledger, partitions=10, chunk_size=10)
    mine = await claim_one(ledger)
    async with ledger.holding(mine, lambda: done(0)) as tx:
        await store(tx, 100)
    with pytest.raises(ZeroDivisionError):
        async with ledger.holding(mine, lambda: done(1 // 0)) as tx:
            await store(tx, 101)
    assert await stored(home) == [100]


async def test_a_transaction_is_refused_once_the_lease_has_another_holder(
    ledger: Ledger, clock: Clock
) -> None:
    await create(ledger, partitions=10, chunk_size=10)
    zombie = await claim_one(ledger)
    clock.now += 60
    heir = await claim_one(ledger)
    with pytest.raises(LeaseLost, match="chunk `bf:0` is no longer leased to this run"):
        async with ledger.holding(zombie, lambda: done(5)):
            raise AssertionError("the transaction must not begin")
    async with ledger.holding(heir, lambda: done(0)) as tx:
        await tx.execute("SELECT 1")


async def test_a_transaction_extends_the_lease(ledger: Ledger, clock: Clock) -> None:
    await create(ledger, partitions=10, chunk_size=10)
    mine = await claim_one(ledger)
    clock.now += 59
    async with ledger.holding(mine, done):
        pass
    (row,) = await ledger.chunks("bf")
    assert row.due == clock.now + 60


async def test_named_statements_work_in_a_transaction(ledger: Ledger) -> None:
    await create(ledger)
    mine = await claim_one(ledger)
    async with ledger.holding(mine, done) as tx:
        (row,) = await tx.fetch("signals", id="bf")
    assert tuple(row) == ("RUNNING", None)
