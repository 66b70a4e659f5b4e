"""PostgreSQL as a sink: rows and records of a batch change in one transaction.

Any number of processes and hosts may write at the same time; `locks` prevents conflicts. A write
can also join a transaction that the caller has open on the same database, so that rows and the
ledger's progress are committed together.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Self, TypeVar

import asyncpg
import pyarrow as pa

from gapless.core.errors import SinkUnusable
from gapless.core.ranges import RangeSet, Span
from gapless.postgres.connections import Connection
from gapless.schema import Index, Schema, Table
from gapless.schema.arrow import Tables
from gapless.sinks import feed, records, sql
from gapless.sinks.admission import admit
from gapless.sinks.changes import CHANGES_LIMIT, Change, ChangeReader
from gapless.sinks.companion import Body as CompanionBody
from gapless.sinks.postgres import home as homes
from gapless.sinks.postgres import locks
from gapless.sinks.postgres.database import (
    COPYING,
    INDEXING,
    NO_LIMIT,
    READING,
    WRITING,
    SinkDatabase,
    translate_errors,
)
from gapless.sinks.postgres.home import Home
from gapless.sinks.postgres.options import Options
from gapless.sinks.postgres.tables import Interleaved, PostgresTables, Ready
from gapless.sinks.sink import EXPIRE_LIMIT, FOLD_LIMIT, Access, Batch, Damage, Request, Stored

T = TypeVar("T")
Body = Callable[[PostgresTables], Awaitable[T]]


class PostgresSink:
    """A sink in a schema of a database. Open it with `open`."""

    batch_blocks: int | None = None
    grid: int | None = None

    def __init__(self, database: SinkDatabase, home: Home, access: Access) -> None:
        self.id = home.id
        self._database = database
        self._home = home
        self._access = access

    @classmethod
    async def open(cls, target: str, schema: Schema, access: Access = Access.CREATE) -> Self:
        options = Options.parse(target)
        database = SinkDatabase(options.url, options.shown, prepared=options.prepared_statements)
        await database.open()
        try:
            return cls(database, await _home(database, options, schema, access), access)
        except BaseException:
            await database.close()
            raise

    async def write(self, batch: Batch, fence: int) -> None:
        batch, ready = await self._prepare(batch)
        begin = f"{WRITING}; {locks.to_write(self.id, batch.chain_id, batch.span)}"

        async def body(connection: Connection) -> None:
            tables = self._tables(connection, ready, prepared=self._database.prepared)
            await self._write(tables, batch, fence)

        await self._database.transact(body, begin)

    async def write_within(
        self, connection: asyncpg.Connection, batch: Batch, fence: int
    ) -> list[Stored]:
        """Write within the caller's open transaction; the rows become durable with it.

        Errors from a lost connection are not translated, because the caller owns the connection.
        """
        batch, ready = await self._prepare(batch)
        lock = locks.to_write(self.id, batch.chain_id, batch.span)
        await connection.execute(f"{COPYING}; SAVEPOINT gapless_write")
        while True:
            try:
                await connection.execute(lock)
                tables = self._tables(Connection(connection), ready)
                return await self._write(tables, batch, fence)
            except Interleaved:
                await connection.execute("ROLLBACK TO SAVEPOINT gapless_write")

    async def is_reached_by(self, connection: asyncpg.Connection) -> bool:
        """Whether a connection, which is in a transaction, has the same database and user.

        Take a lock with a random key on a connection of the sink, then try it on the given one.
        """
        key = secrets.randbits(63)

        async def body(ours: Connection) -> bool:
            await ours.raw.execute(f"SELECT pg_advisory_xact_lock({key})")
            theirs = await connection.fetchrow(
                "SELECT pg_try_advisory_xact_lock($1), current_user", key
            )
            assert theirs is not None
            free, user = theirs
            return not free and user == await ours.raw.fetchval("SELECT current_user")

        return await self._database.transact(body)

    async def retract(self, chain_id: int, span: Span, fence: int) -> None:
        async def body(tables: PostgresTables) -> None:
            async with tables.whole():
                await sql.retract(tables, chain_id, span, fence)

        await self._change(body, locks.to_write(self.id, chain_id, span))

    async def stored(self, chain_id: int, span: Span | None = None) -> list[Stored]:
        return await self._run(lambda tables: sql.stored(tables, chain_id, span))

    async def records(self, chain_id: int, span: Span) -> list[Stored]:
        return await self._run(lambda tables: sql.whole_records(tables, chain_id, span))

    async def endorse(
        self,
        chain_id: int,
        seen: Sequence[Stored],
        proven: frozenset[str],
        unproven: frozenset[str],
        fence: int,
    ) -> None:
        if seen:
            await self._change(
                lambda tables: sql.endorse(tables, chain_id, seen, proven, unproven, fence),
                locks.to_write(self.id, chain_id, records.hull(seen)),
            )

    async def fold(
        self,
        chain_id: int,
        below: int,
        keep: RangeSet = RangeSet(),  # noqa: B008 - immutable
        limit: int = FOLD_LIMIT,
    ) -> int:
        """Locks only the heights of records that are merged into those before them."""
        self._access.admit(self._database.shown)
        whole = Span(0, below - 1)
        gone = await self._run(lambda tables: sql.foldable(tables, chain_id, whole, keep, limit))
        if gone is None:
            return 0
        span = Span(gone.first - 1, gone.last)
        return await self._change(
            lambda tables: sql.fold(tables, chain_id, span, keep, limit),
            locks.to_write(self.id, chain_id, gone),
        )

    async def expire(self, chain_id: int, below: int, limit: int = EXPIRE_LIMIT) -> int:
        async def body(tables: PostgresTables) -> int:
            async with tables.whole():
                return await sql.expire(tables, chain_id, below, limit)

        return await self._change(body, locks.to_change(self.id))

    async def changes(self, chain_id: int, after: int, limit: int = CHANGES_LIMIT) -> list[Change]:
        return await self._run(lambda tables: feed.changes(tables, chain_id, after, limit))

    async def add_change_reader(self, chain_id: int, name: str) -> int:
        return await self._change(
            lambda tables: feed.add_reader(tables, chain_id, name), locks.to_change(self.id)
        )

    async def remove_change_reader(self, chain_id: int, name: str) -> None:
        await self._change(
            lambda tables: feed.remove_reader(tables, chain_id, name), locks.to_change(self.id)
        )

    async def change_readers(self, chain_id: int) -> dict[str, ChangeReader]:
        return await self._run(lambda tables: feed.readers(tables, chain_id))

    async def acknowledge_changes(self, chain_id: int, name: str, through: int) -> None:
        await self._change(
            lambda tables: feed.acknowledge(tables, chain_id, name, through),
            locks.to_acknowledge(self.id),
        )

    async def consult(self, body: CompanionBody[T]) -> T:
        return await self._accompany(body, READING)

    async def transact(self, chain_id: int, body: CompanionBody[T], *, alone: bool = False) -> T:
        lock = locks.to_accompany(self.id, chain_id)
        if alone:
            lock = f"{locks.to_change(self.id)}; {lock}"
        self._access.admit(self._database.shown)
        return await self._accompany(body, f"{WRITING}; {lock}")

    async def _accompany(self, body: CompanionBody[T], begin: str) -> T:
        return await self._database.transact(
            lambda it: body(self._tables(it, prepared=self._database.prepared)), begin
        )

    async def chains(self) -> list[int]:
        return await self._run(PostgresTables.chains)

    async def request(self, chain_id: int, wanted: Request) -> None:
        await self._change(
            lambda tables: sql.request(tables, chain_id, wanted), locks.to_request(self.id)
        )

    async def requests(self, chain_id: int) -> list[Request]:
        return await self._run(lambda tables: tables.requests(chain_id))

    async def withdraw(self, chain_id: int, span: Span) -> None:
        await self._change(
            lambda tables: sql.withdraw(tables, chain_id, span), locks.to_request(self.id)
        )

    async def read(
        self, table: Table, chain_id: int, span: Span, columns: Collection[str] | None = None
    ) -> pa.Table:
        with sql.report_damage(table, span):
            return await self._run(lambda tables: tables.read(table, chain_id, span, columns))

    async def counts(self, table: Table, chain_id: int, span: Span) -> pa.Table:
        return await self._run(lambda tables: tables.counts(table, chain_id, span))

    async def damage(self, chain_id: int, span: Span | None = None) -> list[Damage]:
        return []

    async def strays(self) -> list[str]:
        return []

    async def highest_fence(self) -> int:
        return await self._run(PostgresTables.highest_fence)

    async def finish(self) -> None:
        self._access.admit(self._database.shown)
        await self.build_indexes({it.name: it.indexes for it in self._home.schema.tables})

    async def build_indexes(self, indexes: Mapping[str, Collection[Index]]) -> None:
        async def lacking(connection: Connection) -> list[str]:
            return await homes.missing_indexes(connection.raw, self._home.ddl, indexes)

        async def build(connection: Connection) -> None:
            """Build one index per transaction, so that only the writers of its table wait."""
            await connection.raw.execute(locks.to_index(self.id), timeout=NO_LIMIT)
            for statement in (await lacking(connection))[:1]:
                await connection.raw.execute(statement, timeout=NO_LIMIT)

        while await self._database.transact(lacking, READING):
            self._access.admit(self._database.shown)
            await self._database.transact(build, INDEXING)

    async def close(self) -> None:
        await self._database.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    async def _prepare(self, batch: Batch) -> tuple[Batch, dict[str, Ready]]:
        """Validate the batch, create the tables that it needs, and encode its rows.

        The returned batch has the same rows in one chunk, so that they are not joined again.
        """
        self._access.admit(self._database.shown)
        ready = await asyncio.to_thread(_ready, batch, self._home.schema)
        batch = replace(batch, tables=Tables({name: each.rows for name, each in ready.items()}))
        if self._home.lacks(batch.tables, batch.span):
            home = self._home
            await self._database.transact(
                lambda it: homes.create_tables(it.raw, home, batch.tables, batch.span)
            )
            existing = await self._database.transact(
                lambda it: homes.names(it.raw, home.ddl.schema), READING
            )
            self._home = replace(home, existing=existing)
        return batch, ready

    async def _write(self, tables: PostgresTables, batch: Batch, fence: int) -> list[Stored]:
        with translate_errors(self._database.shown):
            async with tables.whole():
                return await sql.write(tables, batch, fence, tables.digest_of)

    async def _change(self, body: Body[T], lock: str) -> T:
        self._access.admit(self._database.shown)
        return await self._run(body, f"{WRITING}; {lock}")

    async def _run(self, body: Body[T], begin: str = READING) -> T:
        return await self._database.transact(lambda it: body(self._tables(it)), begin)

    def _tables(
        self,
        connection: Connection,
        ready: Mapping[str, Ready] | None = None,
        *,
        prepared: bool = False,
    ) -> PostgresTables:
        home = self._home
        return PostgresTables(connection, home, ready, prepared=prepared)


def _ready(batch: Batch, schema: Schema) -> dict[str, Ready]:
    admit(batch, schema)
    return {
        name: Ready.of(schema[name], rows.combine_chunks()) for name, rows in batch.tables.items()
    }


async def _home(database: SinkDatabase, options: Options, schema: Schema, access: Access) -> Home:
    async def look(connection: Connection) -> Home | None:
        return await homes.find_sink(connection.raw, options, schema)

    home = await database.transact(look, READING)
    lacks = access is Access.CREATE if home is None else not home.existing >= homes.OWN_TABLES
    if lacks and access.writes:
        await database.transact(lambda it: homes.create_schema(it.raw, options, schema))
        home = await database.transact(look, READING)
    if home is None:
        raise SinkUnusable(
            f"{options.shown} has no sink in its schema `{options.schema}`",
            hint="check the URL and its `schema`",
        )
    known = home
    old = await database.transact(lambda it: homes.outdated(it.raw, known, options.shown), READING)
    if old and access.writes:
        await database.transact(lambda it: homes.extend(it.raw, known, old))
        return home
    return replace(home, outdated=frozenset(each.name for each in old))
