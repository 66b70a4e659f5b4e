"""Every conformance test runs once on SQLite and once on PostgreSQL."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from itertools import count
from pathlib import Path

import pytest

from gapless.ledger import Ledger, open_ledger
from tests.servers import PostgresServer
from tests.support import Chance, Clock, Home, PostgresHome, SqliteHome, open_at

TEMPLATE = "ledger_template"
_EMPTY = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid();
DO $$ BEGIN
    EXECUTE (SELECT 'TRUNCATE ' || string_agg('gapless.' || tablename, ', ') || ' RESTART IDENTITY'
             FROM pg_tables WHERE schemaname = 'gapless' AND tablename <> 'schema_version');
    ALTER SEQUENCE gapless.fence RESTART;
END $$
"""
_serials = count(1)


@pytest.fixture(scope="session")
def ledger_template(postgres: PostgresServer) -> str:
    """A database with the ledger's schema, to be cloned: cheaper than migrating each time."""

    async def migrate() -> None:
        await (await open_ledger(postgres.url(TEMPLATE))).close()

    postgres.create_database(TEMPLATE)
    asyncio.run(migrate())
    return TEMPLATE


@pytest.fixture
def fresh_postgres_home(postgres: PostgresServer, ledger_template: str) -> Iterator[PostgresHome]:
    """A clone, for a test that changes the schema or leaves connections open."""
    name = f"ledger_{next(_serials)}"
    postgres.create_database(name, ledger_template)
    yield PostgresHome(postgres.url(name))
    postgres.drop_database(name)


@pytest.fixture(scope="session")
def shared_postgres_home(postgres: PostgresServer, ledger_template: str) -> PostgresHome:
    postgres.create_database("ledger_shared", ledger_template)
    return PostgresHome(postgres.url("ledger_shared"))


@pytest.fixture
def postgres_home(shared_postgres_home: PostgresHome) -> Iterator[PostgresHome]:
    """One database for all tests, emptied after each: ten times as fast as cloning."""
    yield shared_postgres_home
    asyncio.run(shared_postgres_home.script(_EMPTY))


@pytest.fixture
def sqlite_home(tmp_path: Path) -> SqliteHome:
    return SqliteHome(tmp_path / "ledger.db")


@pytest.fixture
def fresh_sqlite_home(sqlite_home: SqliteHome) -> SqliteHome:
    return sqlite_home


@pytest.fixture(params=["sqlite", "postgres"])
def home(request: pytest.FixtureRequest) -> Home:
    """Where a ledger without any backfill is."""
    place: Home = request.getfixturevalue(f"{request.param}_home")
    return place


@pytest.fixture(params=["sqlite", "postgres"])
def fresh_home(request: pytest.FixtureRequest) -> Home:
    place: Home = request.getfixturevalue(f"fresh_{request.param}_home")
    return place


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def chance() -> Chance:
    return Chance()


@pytest.fixture
async def breakable(home: Home, clock: Clock, chance: Chance) -> AsyncIterator[Ledger]:
    """An open ledger that a test may corrupt."""
    ledger = await open_at(home, clock, chance)
    yield ledger
    await ledger.close()


@pytest.fixture
async def ledger(breakable: Ledger) -> AsyncIterator[Ledger]:
    """An open ledger. Whatever a test does with it, its check must find no problem."""
    yield breakable
    assert await breakable.check() == []


@pytest.fixture
async def other(ledger: Ledger, home: Home, clock: Clock) -> AsyncIterator[Ledger]:
    """The same ledger, opened a second time, as if by another process."""
    second = await open_at(home, clock, actor="other")
    yield second
    await second.close()
