"""Databases to measure on: SQLite files, and a PostgreSQL server with fsync on."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Protocol

import apsw
import asyncpg

from gapless.ledger import open_ledger
from tests.servers import PostgresConfig, PostgresServer

TEMPLATE = "template_ledger"


class Place(Protocol):
    """A database system that provides empty ledgers."""

    name: str

    async def fresh(self) -> str:
        """The URL of a new ledger, with its schema."""

    async def script(self, url: str, text: str) -> None:
        """Runs SQL directly on a ledger's database; tables have unqualified names in both."""


@dataclass
class Sqlite:
    folder: Path
    name: str = "sqlite"
    _serials: Iterator[int] = field(default_factory=count)

    async def fresh(self) -> str:
        url = f"sqlite:///{self.folder}/{next(self._serials)}.db"
        await (await open_ledger(url)).close()
        return url

    async def script(self, url: str, text: str) -> None:
        connection = apsw.Connection(url.removeprefix("sqlite:///"))
        connection.execute(f"PRAGMA synchronous = FULL; BEGIN; {text}; COMMIT")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        connection.close()


@dataclass
class Postgres:
    server: PostgresServer
    name: str = "postgres"
    _serials: Iterator[int] = field(default_factory=count)

    async def fresh(self) -> str:
        serial = next(self._serials)
        if serial == 0:
            await asyncio.to_thread(self.server.create_database, TEMPLATE)
            await (await open_ledger(self.server.url(TEMPLATE))).close()
        name = f"ledger_{serial}"
        await asyncio.to_thread(self.server.create_database, name, TEMPLATE)
        return self.server.url(name)

    async def script(self, url: str, text: str) -> None:
        connection = await asyncpg.connect(url, server_settings={"search_path": "gapless"})
        await connection.execute(text)
        await connection.close()


@contextmanager
def sqlite() -> Iterator[Sqlite]:
    with tempfile.TemporaryDirectory(prefix="gapless-bench-") as folder:
        yield Sqlite(Path(folder))


@contextmanager
def postgres() -> Iterator[Postgres]:
    # Default settings, except that neither a checkpoint nor a vacuum runs during a measurement.
    settings = {"max_wal_size": "8GB", "checkpoint_timeout": "1h", "autovacuum_naptime": "1h"}
    with PostgresServer(PostgresConfig(fsync=True, settings=settings)) as server:
        yield Postgres(server)
