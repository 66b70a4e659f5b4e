"""Whatever happens to the passes of wallets, their syncs say what is done and what is missing."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar

import pytest
from hypothesis.stateful import run_state_machine_as_test

from gapless.ledger import Ledger, open_ledger
from tests.servers import PostgresServer
from tests.stateful.databases import MEMORY
from tests.stateful.tables import PostgresTables
from tests.stateful.test_ledger_machine import PATIENCE, profile
from tests.stateful.wallets import WalletMachine
from tests.support import PostgresHome, SqliteHome, open_at


class SqliteWallets(WalletMachine):
    async def open(self) -> Ledger:
        self._folder = tempfile.mkdtemp(prefix="gapless-", dir=MEMORY)
        return await open_at(SqliteHome(Path(self._folder, "ledger.db")), self.clock)

    def teardown(self) -> None:
        super().teardown()
        shutil.rmtree(self._folder, ignore_errors=True)


class PostgresWallets(WalletMachine):
    """All examples share one database, which each empties before it starts."""

    url: ClassVar[str]

    async def open(self) -> Ledger:
        tables = await PostgresTables.connect(self.url)
        await tables.empty()
        await tables.close()
        return await open_at(PostgresHome(self.url), self.clock)


@contextmanager
def postgres_wallets(server: PostgresServer) -> Iterator[type[WalletMachine]]:
    name = "wallets"
    server.create_database(name)

    async def migrate() -> None:
        await (await open_ledger(server.url(name))).close()

    asyncio.run(migrate())
    try:
        yield type("PostgresWallets", (PostgresWallets,), {"url": server.url(name)})
    finally:
        server.drop_database(name)


@pytest.mark.timeout(PATIENCE)
class TestSqlite:
    def test_syncs_tell_the_truth(self) -> None:
        run_state_machine_as_test(SqliteWallets, settings=profile(30))


@pytest.mark.timeout(PATIENCE)
class TestPostgres:
    def test_syncs_tell_the_truth(self, postgres: PostgresServer) -> None:
        with postgres_wallets(postgres) as machine:
            run_state_machine_as_test(machine, settings=profile(8))
