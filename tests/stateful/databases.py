"""The state machine on real databases: one SQLite file per example, or one PostgreSQL database."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any, ClassVar

import apsw

from gapless.ledger.database import Database, LedgerTransaction
from gapless.ledger.postgres import PostgresDatabase
from gapless.ledger.sqlite import SqliteDatabase
from tests.servers import PostgresServer
from tests.stateful.laws import Deed
from tests.stateful.machine import LedgerMachine
from tests.stateful.tables import PostgresTables, SqliteTables, Tables

MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None


class SqliteMachine(LedgerMachine):
    """Every example has its own file."""

    async def _connect(self, bound: Callable[[], dict[str, Any]]) -> tuple[Database, Tables]:
        self._folder = tempfile.mkdtemp(prefix="gapless-", dir=MEMORY)
        path = Path(self._folder, "ledger.db")
        with _bound_randomness():
            database = await SqliteDatabase(path, bound).open()
        await database.migrate()
        return database, SqliteTables(path)

    def _clean(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)


class PostgresMachine(LedgerMachine):
    """All examples share one database, which each empties before it starts."""

    url: ClassVar[str]
    seeds: Iterator[int]

    async def _connect(self, bound: Callable[[], dict[str, Any]]) -> tuple[Database, Tables]:
        self.seeds = count()
        database = await PostgresDatabase(self.url, self.url, bound).open()
        tables = await PostgresTables.connect(self.url)
        await tables.empty()
        return database, tables

    async def _prepare(self, tx: LedgerTransaction) -> None:
        if self._act.deed is Deed.CLAIM:
            await tx.execute("SELECT setseed(:seed::float8)", seed=next(self.seeds) % 10 / 10)


@contextmanager
def _bound_randomness() -> Iterator[None]:
    """Makes `random()` deterministic on connections that are opened meanwhile."""
    draws = count()

    def draw(*_: object) -> int:
        return next(draws) * 7919 % 101

    def bind(connection: apsw.Connection) -> None:
        connection.create_scalar_function("random", draw, 0)

    apsw.connection_hooks.append(bind)
    try:
        yield
    finally:
        apsw.connection_hooks.remove(bind)


@contextmanager
def postgres_machine(server: PostgresServer) -> Iterator[type[PostgresMachine]]:
    """The machine on its own database, which is removed afterwards."""
    name = "stateful"
    server.create_database(name)
    url = server.url(name)
    asyncio.run(_migrate(url))
    try:
        yield type("PostgresMachine", (PostgresMachine,), {"url": url})
    finally:
        server.drop_database(name)


async def _migrate(url: str) -> None:
    database = await PostgresDatabase(url, url, dict).open()
    await database.migrate()
    await database.close()
