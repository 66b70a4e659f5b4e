"""PostgreSQL: the sink alone, and fetches into it, compared with COPY of prepared rows.

The raw limit is COPY of the same bytes into tables without a key, a hundred blocks per transaction,
with fsync on. It is compared with a sink with foreign keys, one without, and a fetch whose ledger
is in the same database, so that each batch is one transaction.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from itertools import count

import asyncpg

from bench import places
from bench.node_process import node
from bench.rendered import LARGE, SMALL, Workload
from bench.report import Bound, Row, at_least, median, median_ratio, per_second
from bench.runs import Room, room
from bench.writing import batches_of
from gapless.chains.evm.tables import TABLES
from gapless.chains.opening import open_sink
from gapless.schema.postgres import PostgresDdl
from gapless.sinks import Batch
from gapless.sinks.postgres.copying import columns_with_values, copy_stream
from tests.servers import PostgresServer

ROUNDS = 3
BATCH = 100
WITH_KEYS, WITHOUT = at_least(0.25), at_least(0.4)

Copy = tuple[str, list[str], list[bytes]]
Transaction = list[Copy]


async def measure() -> AsyncIterator[Row]:
    with places.postgres() as place:
        for workload in (SMALL, LARGE):
            batches = batches_of(workload, BATCH)
            ready = [_ready(batch) for batch in batches]
            stage = Stage(place.server, workload, batches, ready)
            async for row in stage.measure():
                yield row


@dataclass(frozen=True)
class Way:
    """One way to store the rows."""

    name: str
    options: str = ""
    fetches: bool = False
    joined: bool = False
    bound: Bound | None = None


WAYS = (
    Way("PostgreSQL sink alone"),
    Way("PostgreSQL sink alone, fk=off", "&fk=off"),
    Way("fetch to PostgreSQL", fetches=True, bound=WITH_KEYS),
    Way("fetch to PostgreSQL, fk=off", "&fk=off", fetches=True, bound=WITHOUT),
    Way("fetch to PostgreSQL, one transaction", fetches=True, joined=True),
)


@dataclass(frozen=True)
class Stage:
    """A server, and the rows of a workload."""

    server: PostgresServer
    workload: Workload
    batches: Sequence[Batch]
    ready: Sequence[Transaction]

    async def measure(self) -> AsyncIterator[Row]:
        taken: dict[str, list[float]] = {"raw": [], **{way.name: [] for way in WAYS}}
        async with node(self.workload) as running:
            with room() as place:
                for turn in range(ROUNDS):
                    for way in (None, *WAYS)[:: -1 if turn % 2 else 1]:
                        seconds = await self._taken(way, place, running.url)
                        taken[way.name if way else "raw"].append(seconds)
        rows = sum(len(table) for batch in self.batches for table in batch.tables.values())
        limit = rows / median(taken["raw"])
        for way in WAYS:
            rate = rows / median(taken[way.name])
            yield Row(
                f"{way.name}, {self.workload.name}, of raw COPY",
                f"{per_second(rate)} of {per_second(limit)} rows",
                median_ratio(taken["raw"], taken[way.name]),
                way.bound,
            )

    async def _taken(self, way: Way | None, place: Room, url: str) -> float:
        """Seconds that a way takes, in a new database."""
        name = f"bench_{next(_serials)}"
        self.server.create_database(name)
        database = self.server.url(name)
        try:
            if way is None:
                return await self._raw(database)
            target = f"{database}?schema=public{way.options}"
            if not way.fetches:
                return await self._written(target)
            ledger = database if way.joined else None
            blocks = self.workload.blocks
            return (await place.fetch(url, blocks, target, ledger=ledger)).seconds
        finally:
            self.server.drop_database(name)

    async def _written(self, target: str) -> float:
        async with await open_sink(target) as sink:
            began = time.perf_counter()
            for batch in self.batches:
                await sink.write(batch, 1)
            return time.perf_counter() - began

    async def _raw(self, url: str) -> float:
        connection = await asyncpg.connect(url)
        ddl = PostgresDdl("public", foreign_keys=False)
        for table in TABLES:
            await connection.execute(ddl.create_table(table))
            unbound = f"ALTER TABLE {table.name} DROP CONSTRAINT {table.name}_pkey"
            await connection.execute(unbound)
        began = time.perf_counter()
        for transaction in self.ready:
            async with connection.transaction():
                for name, columns, pieces in transaction:
                    await connection.copy_to_table(
                        name, columns=columns, source=_each(pieces), format="binary"
                    )
        taken = time.perf_counter() - began
        await connection.close()
        return taken


_serials = count()


def _ready(batch: Batch) -> Transaction:
    found = []
    for table in TABLES:
        rows = batch.tables[table.name].combine_chunks()
        columns = columns_with_values(table, rows)
        found.append((table.name, [it.name for it in columns], [*copy_stream(columns, rows)]))
    return found


async def _each(pieces: Sequence[bytes]) -> AsyncIterator[bytes]:
    for piece in pieces:
        yield piece
