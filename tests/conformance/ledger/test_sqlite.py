"""Specific to SQLite: one file, one thread, one shared write lock."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path

import apsw
import pytest

from gapless.core.errors import LedgerError, LedgerUnreachable
from gapless.ledger import Ledger, open_ledger
from gapless.ledger.database import LedgerTransaction
from gapless.ledger.sqlite import database as sqlite_database
from tests.support import (
    Clock,
    SqliteHome,
    claim_one,
    complete,
    create,
    database_of,
    done,
    finish,
    open_at,
    plan,
    state,
)


@pytest.fixture
async def ledger(sqlite_home: SqliteHome, clock: Clock) -> AsyncIterator[Ledger]:
    ledger = await open_at(sqlite_home, clock)
    yield ledger
    assert await ledger.check() == []
    await ledger.close()


async def test_a_commit_is_on_disk_before_it_is_confirmed(
    ledger: Ledger, sqlite_home: SqliteHome
) -> None:
    async def pragmas(tx: LedgerTransaction) -> list[object]:
        names = ("journal_mode", "synchronous", "user_version")
        return [(await tx.execute(f"PRAGMA {name}"))[0][0] for name in names]

    assert await database_of(ledger).transact(pragmas) == ["wal", 2, 8]
    assert await sqlite_home.run("PRAGMA application_id") == [(0x6761706C,)]


@pytest.mark.parametrize("times", [1, 2])
async def test_a_run_cancelled_while_waiting_for_the_lock_leaves_no_transaction_open(
    ledger: Ledger, sqlite_home: SqliteHome, times: int
) -> None:
    """It is cancelled twice if it lost its lease and its worker drains."""
    await create(ledger, partitions=1)
    mine = await claim_one(ledger)
    blocker = apsw.Connection(str(sqlite_home.path))
    blocker.execute("BEGIN IMMEDIATE")

    async def hold() -> None:
        async with ledger.holding(mine, done):
            raise AssertionError("cancelled before it began")

    holding = asyncio.create_task(hold())
    for _ in range(10):
        await asyncio.sleep(0)
    for _ in range(times):
        holding.cancel()
        await asyncio.sleep(0)
    blocker.execute("ROLLBACK")
    with pytest.raises(asyncio.CancelledError):
        await holding
    await complete(ledger, mine)
    blocker.close()


async def test_a_run_cancelled_in_its_transaction_rolls_it_back(ledger: Ledger) -> None:
    await create(ledger, partitions=10, chunk_size=10)
    mine = await claim_one(ledger)
    entered = asyncio.Event()

    async def hold() -> None:
        async with ledger.holding(mine, lambda: done(5)) as tx:
            await tx.execute("CREATE TABLE effects (x)")
            entered.set()
            await asyncio.Event().wait()

    holding = asyncio.create_task(hold())
    await entered.wait()
    holding.cancel()
    with pytest.raises(asyncio.CancelledError):
        await holding
    (row,) = await ledger.chunks("bf")
    assert row.progress.last_processed is None
    await complete(ledger, mine)


async def test_a_cancelled_write_is_complete_or_absent(ledger: Ledger) -> None:
    creating = asyncio.create_task(create(ledger))
    for _ in range(10):
        await asyncio.sleep(0)
    creating.cancel()
    await asyncio.wait([creating])  # on a busy machine it may already have ended
    assert len(await ledger.backfills()) in (0, 1)
    await finish(ledger)
    assert not await ledger.backfills(state="RUNNING")


async def test_a_ledger_locked_for_too_long_is_unreachable(
    sqlite_home: SqliteHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_database, "LONGEST_WAIT", 0.001)
    ledger = await open_at(sqlite_home)
    blocker = apsw.Connection(str(sqlite_home.path))
    blocker.execute("BEGIN IMMEDIATE")
    with pytest.raises(LedgerUnreachable, match="is locked") as error:
        await create(ledger)
    assert error.value.hint == "another process holds a transaction open on it"
    assert await ledger.backfills() == []  # readers never wait
    blocker.execute("ROLLBACK")
    blocker.close()
    await create(ledger)
    await ledger.close()


async def test_a_transaction_must_not_wait_for_anything(ledger: Ledger) -> None:
    async def waits(tx: LedgerTransaction) -> None:
        await asyncio.sleep(0)

    with pytest.raises(RuntimeError, match="must not wait"):
        await database_of(ledger).transact(waits)
    await create(ledger, partitions=1)
    await finish(ledger)
    assert await state(ledger) == "SUCCEEDED"


def damage(home: SqliteHome) -> None:
    """Overwrites the second half of the file, which contains the chunks and their events."""
    size = home.path.stat().st_size
    with home.path.open("r+b") as file:
        file.seek(size // 2)
        file.write(b"\xff" * (size // 2))


async def test_damage_to_the_file_is_found(sqlite_home: SqliteHome) -> None:
    ledger = await open_at(sqlite_home)
    await create(ledger, partitions=2000)
    await plan(ledger, "bf", 2000)
    await ledger.close()
    damage(sqlite_home)
    ledger = await open_at(sqlite_home)
    assert await ledger.check() != []
    with pytest.raises(LedgerError, match=r"the ledger `.*` failed: .*malformed"):
        await ledger.events("bf")
    await ledger.close()


async def test_reading_an_empty_file_leaves_it_empty(sqlite_home: SqliteHome) -> None:
    sqlite_home.path.touch()
    with pytest.raises(LedgerUnreachable, match="there is no ledger"):
        await open_ledger(sqlite_home.url, create=False)
    assert sqlite_home.path.stat().st_size == 0


async def test_a_deleted_file_is_detected(sqlite_home: SqliteHome, clock: Clock) -> None:
    """Nobody would ever find what is written to it from then on."""
    ledger = await open_at(sqlite_home, clock)
    await ledger.backfills()
    os.unlink(sqlite_home.path)  # noqa: PTH108
    with pytest.raises(LedgerError, match="was removed or replaced while it was in use"):
        await ledger.backfills()
    with pytest.raises(LedgerError, match="was removed or replaced"):
        async with ledger.session():
            raise AssertionError("it began")
    await ledger.close()


async def test_a_job_may_change_the_working_directory(
    sqlite_home: SqliteHome, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(sqlite_home.path.parent)
    ledger = await open_at(SqliteHome(Path(sqlite_home.path.name)), clock)
    await ledger.backfills()
    monkeypatch.chdir("/")
    await create(ledger)
    assert len(await ledger.backfills()) == 1
    await ledger.close()


async def test_the_ledger_recovers_when_its_folder_is_accessible_again(
    sqlite_home: SqliteHome, clock: Clock
) -> None:
    folder = sqlite_home.path.parent
    ledger = await open_at(sqlite_home, clock)
    away = folder.rename(folder.with_name("away"))
    folder.symlink_to(folder)
    with pytest.raises(LedgerUnreachable, match="cannot be accessed"):
        await ledger.backfills()
    folder.unlink()
    away.rename(folder)
    assert await ledger.backfills() == []
    await ledger.close()
