"""A ledger's schema is neither older nor newer than the library, and moves forward as a whole."""

from __future__ import annotations

import asyncio

import pytest

from gapless.core.errors import SchemaMismatch
from gapless.core.remedies import MigrateLedger
from gapless.ledger import open_ledger, sql
from tests.support import Home, PostgresHome, claim_one, create, open_at

KNOWN = sql.migrations
NEWEST = KNOWN("gapless.ledger.sqlite")[-1][0]
NEXT = NEWEST + 1


@pytest.fixture
def home(fresh_home: Home) -> Home:
    return fresh_home


def with_migration(monkeypatch: pytest.MonkeyPatch, home: Home, *more: str) -> None:
    """Pretends that the library knows one more migration."""
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


async def test_many_who_migrate_at_once_do_it_once(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
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


async def test_a_backfill_of_before_has_an_empty_spec(home: Home) -> None:
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


async def _back_to_the_first_schema(home: Home) -> None:
    back = [
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
    version = "UPDATE schema_version SET version = 1"
    for statement in [
        *back,
        version if isinstance(home, PostgresHome) else "PRAGMA user_version = 1",
    ]:
        await home.run(statement)
