"""A ledger's schema must match the library, and migrates completely or not at all."""

from __future__ import annotations

import asyncio

import pytest

from gapless.core.errors import SchemaMismatch
from gapless.core.remedies import MigrateLedger
from gapless.ledger import open_ledger, sql
from tests.conformance.ledger.test_groups import HOOK
from tests.support import Home, PostgresHome, claim, claim_one, create, fail, finish, open_at

KNOWN = sql.migrations
NEWEST = KNOWN("gapless.ledger.sqlite")[-1][0]
NEXT = NEWEST + 1
WITHOUT_WALLETS = [
    *(
        f"DROP TABLE {name}"
        for name in ("wallets", "syncs", "sync_passes", "address_sets", "overrides")
    ),
    "DROP INDEX backfills_unsuccessful",
    "ALTER TABLE counts DROP COLUMN changed_at",
    *(f"ALTER TABLE groups DROP COLUMN {name}" for name in ("changed_at", "quiet_seconds")),
]
WITHOUT_QUEUES = [
    *WITHOUT_WALLETS,
    *(f"ALTER TABLE cursors DROP COLUMN {it}" for it in ("head_seen_at", "head_time", "trouble")),
    "DROP TABLE paused_queues",
    "DROP TABLE folded_queues",
    *(
        f"ALTER TABLE counts DROP COLUMN {name}"
        for name in (
            *("failed_runs", "purged", "folded_failed_runs", "folded_purged"),
            *("minute", "in_minute", "in_previous_minute"),
        )
    ),
]


@pytest.fixture
def home(fresh_home: Home) -> Home:
    return fresh_home


def with_migration(monkeypatch: pytest.MonkeyPatch, home: Home, *more: str) -> None:
    """Pretends that the library has one more migration."""
    place = "gapless." if isinstance(home, PostgresHome) else ""
    script = "; ".join([f"CREATE TABLE {place}extra (x BIGINT)", *more])
    monkeypatch.setattr(sql, "migrations", lambda package: [*KNOWN(package), (NEXT, script)])


async def extra_exists(home: Home) -> bool:
    postgres = isinstance(home, PostgresHome)
    names = "tablename FROM pg_tables" if postgres else "name FROM sqlite_schema"
    return ("extra",) in await home.run(f"SELECT {names}")


async def test_a_newer_schema_is_refused(home: Home) -> None:
    await (await open_at(home)).close()
    if isinstance(home, PostgresHome):
        await home.run("UPDATE schema_version SET version = 99")
    else:
        await home.run("PRAGMA user_version = 99")
    with pytest.raises(
        SchemaMismatch, match=f"has schema 99, this Gapless knows {NEWEST}"
    ) as error:
        await open_at(home)
    assert error.value.hint == "upgrade Gapless"


async def test_an_older_schema_is_refused_until_it_is_migrated(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = await open_at(home)
    await create(old)
    await old.close()
    with_migration(monkeypatch, home)
    with pytest.raises(
        SchemaMismatch, match=f"has schema {NEWEST}, this Gapless needs {NEXT}"
    ) as error:
        await open_at(home)
    assert error.value.remedy == MigrateLedger()

    migrating = await open_ledger(home.url, migrating=True)
    assert await migrating.migrate() == (NEWEST, NEXT)
    assert await migrating.migrate() == (NEXT, NEXT)
    await migrating.close()
    ledger = await open_at(home)
    assert (await ledger.backfill("bf")).partitions == 10
    assert await ledger.check() == []
    assert await extra_exists(home)
    await ledger.close()


async def test_concurrent_migrations_run_once(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    await (await open_at(home)).close()
    with_migration(monkeypatch, home)
    ledgers = await asyncio.gather(*(open_ledger(home.url, migrating=True) for _ in range(3)))
    await asyncio.gather(*(ledger.migrate() for ledger in ledgers))
    assert await ledgers[0].migrate() == (NEXT, NEXT)
    for ledger in ledgers:
        await ledger.close()


async def test_a_migration_that_fails_leaves_nothing_behind(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = await open_at(home)
    with_migration(monkeypatch, home, "DROP TABLE no_such_table")
    with pytest.raises(Exception, match="no_such_table"):
        await ledger.migrate()
    assert not await extra_exists(home)
    monkeypatch.undo()
    assert await ledger.migrate() == (NEWEST, NEWEST)
    await ledger.close()


async def test_a_backfill_from_before_specs_has_an_empty_spec(home: Home) -> None:
    ledger = await open_at(home)
    await create(ledger)
    await ledger.close()
    await _back_to_the_first_schema(home)
    migrating = await open_ledger(home.url, migrating=True)
    assert await migrating.migrate() == (1, NEWEST)
    await migrating.close()
    ledger = await open_at(home)
    assert (await ledger.backfill("bf")).spec == {}
    assert (await ledger.backfill("bf")).timeout is None
    assert (await claim_one(ledger)).backfill.spec == {}
    assert await ledger.check() == []
    await ledger.close()


async def test_failures_of_before_are_counted(home: Home) -> None:
    ledger = await open_at(home)
    await create(ledger)
    dead, purged, _ = await claim(ledger, 3)
    for each in (dead, purged):
        await fail(ledger, each, permanent=True)
    await ledger.purge("bf", [purged.chunk_index])
    await ledger.close()
    await _back_to_the_schema_without_queues(home)
    migrating = await open_ledger(home.url, migrating=True)
    await migrating.migrate()
    await migrating.close()
    ledger = await open_at(home)
    (queue,) = await ledger.queues()
    assert (queue.failed, queue.dead, queue.active) == (2, 1, 1)
    assert await ledger.check() == []
    await ledger.close()


async def test_a_group_of_before_does_not_wait(home: Home) -> None:
    ledger = await open_at(home)
    await create(ledger, partitions=1, group="wallets", hook=HOOK)
    await finish(ledger)
    await ledger.close()
    for statement in (*WITHOUT_WALLETS, _version(home, 7)):
        await home.run(statement)
    migrating = await open_ledger(home.url, migrating=True)
    assert await migrating.migrate() == (7, NEWEST)
    await migrating.close()
    ledger = await open_at(home)
    assert [hook.id for hook in await ledger.close_epochs()] == ["drained-wallets-1"]
    assert await ledger.check() == []
    await ledger.close()


async def _back_to_the_schema_without_queues(home: Home) -> None:
    for statement in (*WITHOUT_QUEUES, _version(home, 5)):
        await home.run(statement)


async def _back_to_the_first_schema(home: Home) -> None:
    back = [
        *WITHOUT_QUEUES,
        "DROP TABLE cursors",
        *(f"DROP INDEX backfills_of_{name}" for name in ("follow", "selection")),
        *(f"ALTER TABLE backfills DROP COLUMN {it}" for it in ("standing", "follow", "precedence")),
        *(f"ALTER TABLE chunks DROP COLUMN {name}" for name in ("payload", "write_fence")),
        *(
            f"ALTER TABLE counts DROP COLUMN folded_{name}"
            for name in ("complete", "abandoned", "cancelled", "backfills")
        ),
        *(f"ALTER TABLE backfills DROP COLUMN {name}" for name in ("spec", "timeout")),
        *(f"DROP TABLE {name}" for name in ("endpoints", "attempts")),
        "ALTER TABLE chunks RENAME COLUMN last_failure_position TO failed_behind",
    ]
    for statement in (*back, _version(home, 1)):
        await home.run(statement)


def _version(home: Home, number: int) -> str:
    if isinstance(home, PostgresHome):
        return f"UPDATE schema_version SET version = {number}"
    return f"PRAGMA user_version = {number}"
