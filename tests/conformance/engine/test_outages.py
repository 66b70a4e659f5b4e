"""When a ledger is unavailable for a while, the worker says why, waits, and resumes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from typing import cast

import pytest

import gapless
from gapless.core.backfill import State
from gapless.core.errors import LedgerError
from gapless.ledger.sqlite import SqliteDatabase
from gapless.runtime.engine import Engine
from tests.conformance.engine.conftest import QUICK
from tests.servers import PostgresServer
from tests.support import PostgresHome, SqliteHome, database_of
from tests.waiting import eventually

BREAK = (
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
    " WHERE datname = current_database() AND pid <> pg_backend_pid()"
)
REFUSE = """
CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN RAISE EXCEPTION 'as a server in trouble does' USING ERRCODE = '{code}'; END $$;
CREATE TRIGGER refuse BEFORE UPDATE ON gapless.chunks EXECUTE FUNCTION refuse();
"""


@pytest.fixture
def home(fresh_postgres_home: PostgresHome) -> PostgresHome:
    return fresh_postgres_home


@pytest.fixture
async def clerk(home: PostgresHome) -> AsyncIterator[str]:
    """The URL of a role that owns only the ledger, and that a test may change."""
    await home.script(
        "DROP ROLE IF EXISTS clerk; CREATE ROLE clerk LOGIN;"
        " GRANT USAGE ON SCHEMA gapless TO clerk;"
        " GRANT ALL ON ALL TABLES IN SCHEMA gapless TO clerk;"
        " GRANT ALL ON ALL SEQUENCES IN SCHEMA gapless TO clerk"
    )
    yield home.url.replace("postgres@", "clerk@", 1)
    await home.script("DROP OWNED BY clerk; DROP ROLE clerk")


class Outage:
    """A running backfill, an outage in the middle of it, and what the log says about it."""

    def __init__(self, url: str, caplog: pytest.LogCaptureFixture) -> None:
        self._url = url
        self._caplog = caplog
        caplog.set_level(logging.INFO, "gapless")

    def logged(self, action: str) -> list[str]:
        records = self._caplog.records
        return [
            each.getMessage() for each in records if getattr(each, "action", "").startswith(action)
        ]

    async def survive(self, home: PostgresHome, trouble: str, relief: str) -> None:
        ran: list[object] = []

        @gapless.job(partitions=gapless.block_heights(), chunk_size=1)
        async def copy(chunk: gapless.Chunk, context: gapless.Context) -> None:
            ran.append(chunk.first)
            await asyncio.sleep(0.01)

        async with Engine(self._url, options=QUICK) as engine:
            handle = await engine.backfill(copy, gapless.Range("0", "199"))
            await eventually(lambda: len(ran) > 3)
            await home.script(f"{trouble}; {BREAK}")
            await eventually(lambda: bool(self.logged("ledger_unreachable")))
            said = len(self.logged("ledger_unreachable"))
            await asyncio.sleep(1.0)  # twenty polls
            assert len(self.logged("ledger_unreachable")) <= said + 3  # one for each reason
            assert not (await self._state(home)).startswith("SUCC")
            await home.script(f"BEGIN READ WRITE; {relief}; COMMIT")
            async with asyncio.timeout(60):
                assert (await handle.wait()).state is State.SUCCEEDED
        assert set(ran) == set(range(200))
        assert self.logged("ledger_recovered")

    @staticmethod
    async def _state(home: PostgresHome) -> str:
        (row,) = await home.run("SELECT state FROM backfills")
        return str(row[0])


async def test_a_database_that_is_temporarily_read_only(
    home: PostgresHome, caplog: pytest.LogCaptureFixture
) -> None:
    name = home.url.rpartition("/")[2]
    outage = Outage(home.url, caplog)
    await outage.survive(
        home,
        f"ALTER DATABASE {name} SET default_transaction_read_only = on",
        f"ALTER DATABASE {name} RESET default_transaction_read_only",
    )
    assert any("ReadOnlySQLTransaction" in line for line in outage.logged("ledger_unreachable"))


async def test_a_role_that_temporarily_may_not_log_in(
    home: PostgresHome, clerk: str, caplog: pytest.LogCaptureFixture
) -> None:
    outage = Outage(clerk, caplog)
    await outage.survive(home, "ALTER ROLE clerk NOLOGIN", "ALTER ROLE clerk LOGIN")
    assert any("not permitted to log in" in line for line in outage.logged("ledger_unreachable"))


async def test_a_role_that_temporarily_has_no_connection_left(
    home: PostgresHome, clerk: str, caplog: pytest.LogCaptureFixture
) -> None:
    outage = Outage(clerk, caplog)
    few, many = "ALTER ROLE clerk CONNECTION LIMIT 0", "ALTER ROLE clerk CONNECTION LIMIT -1"
    await outage.survive(home, few, many)
    assert any("too many connections" in line for line in outage.logged("ledger_unreachable"))


async def test_a_password_that_is_temporarily_wrong(
    home: PostgresHome, clerk: str, postgres: PostgresServer, caplog: pytest.LogCaptureFixture
) -> None:
    rules = postgres.folder / "data/pg_hba.conf"
    before = rules.read_text()
    await home.script("ALTER ROLE clerk PASSWORD 'right'")
    try:
        rules.write_text(f"host all clerk 127.0.0.1/32 scram-sha-256\n{before}")
        await home.script("SELECT pg_reload_conf()")
        outage = Outage(clerk.replace("clerk@", "clerk:right@"), caplog)
        await outage.survive(
            home, "ALTER ROLE clerk PASSWORD 'other'", "ALTER ROLE clerk PASSWORD 'right'"
        )
        assert any("InvalidPassword" in line for line in outage.logged("ledger_unreachable"))
        assert not any("right" in line for line in outage.logged(""))
    finally:
        rules.write_text(before)
        await home.script("SELECT pg_reload_conf()")


@pytest.mark.parametrize("code", ["53100", "53200", "58030", "XX000"])
async def test_a_server_that_temporarily_refuses_to_write(
    home: PostgresHome, code: str, caplog: pytest.LogCaptureFixture
) -> None:
    outage = Outage(home.url, caplog)
    await outage.survive(
        home,
        REFUSE.format(code=code),
        "DROP TRIGGER refuse ON gapless.chunks; DROP FUNCTION refuse()",
    )


async def test_a_disk_that_is_temporarily_full(
    sqlite_home: SqliteHome, caplog: pytest.LogCaptureFixture
) -> None:
    outage = Outage(sqlite_home.url, caplog)

    @gapless.job(partitions=gapless.block_heights(), chunk_size=1)
    async def copy(chunk: gapless.Chunk, context: gapless.Context) -> None: ...

    async with Engine(sqlite_home.url, options=QUICK) as engine:
        disk = cast("SqliteDatabase", database_of(engine.ledger))._connection
        handle = await engine.backfill(copy, gapless.Range("0", "1999"))
        disk.pragma("max_page_count", disk.pragma("page_count"))
        await eventually(lambda: bool(outage.logged("ledger_unreachable")))
        assert "disk is full" in outage.logged("ledger_unreachable")[0]
        disk.pragma("max_page_count", 1 << 30)
        async with asyncio.timeout(60):
            assert (await handle.wait()).state is State.SUCCEEDED
    assert outage.logged("ledger_recovered")


async def test_a_missing_table_ends_the_worker_with_a_clear_error(
    home: PostgresHome,
) -> None:
    @gapless.job(partitions=gapless.block_heights(), chunk_size=1)
    async def copy(chunk: gapless.Chunk, context: gapless.Context) -> None:
        await asyncio.sleep(0.01)

    async def run() -> None:
        async with Engine(home.url, options=QUICK) as engine:
            handle = await engine.backfill(copy, gapless.Range("0", "999"))
            await home.script("ALTER TABLE gapless.chunks RENAME TO pieces")
            await handle.wait()

    with pytest.raises(LedgerError, match="refused a statement: UndefinedTableError"):
        await run()
