"""The tables of a PostgreSQL sink: reading and writing rows and records in a transaction.

Rows are written by binary COPY directly to their table. They are encoded before the transaction
begins, so that locks are short. (Encoding while other tables are copied was measured to take 1.4
times as long, because the thread and the event loop compete.)

A record is changed only if its row still has the version that was read: if two writers cut one long
range at distant positions, the second has to start again.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, ParamSpec, TypeVar

import pyarrow as pa

from gapless.core.heights import HIGHEST
from gapless.core.ranges import Span
from gapless.postgres.connections import Connection
from gapless.schema import Table
from gapless.schema.ddl import listed
from gapless.schema.digest import digest
from gapless.schema.postgres import PostgresDdl
from gapless.sinks import companion, feed, requests
from gapless.sinks.companion import Key, Observers, insertion
from gapless.sinks.dialect import POSTGRES, SqlDialect
from gapless.sinks.postgres import locks, seeking
from gapless.sinks.postgres.copying import columns_with_values, copy_stream
from gapless.sinks.postgres.home import Home
from gapless.sinks.postgres.home import columns as columns_of
from gapless.sinks.postgres.rows import select_list, to_arrow
from gapless.sinks.range_rows import COLUMNS, EVERY_DATASET, changes, records_from
from gapless.sinks.records import RangeRecords, Retracted
from gapless.sinks.sink import COUNTS, Request, Stored

P = ParamSpec("P")
T = TypeVar("T")

# Ranges are disjoint: of those that begin before this one, only the last can overlap it.
_KNOWN = f"""
SELECT r.* FROM unnest($2::text[]) WITH ORDINALITY AS wanted (name, nth) CROSS JOIN LATERAL (
  SELECT {COLUMNS}, xmin::text AS version FROM {{ranges}}
  WHERE chain_id = $1 AND dataset = wanted.name AND last >= $3 AND first <= $4
    AND first >= coalesce((SELECT max(first) FROM {{ranges}}
      WHERE chain_id = $1 AND dataset = wanted.name AND first <= $3), 0)
  {{highest}}
) AS r ORDER BY wanted.nth, r.first
"""  # noqa: S608 - our own names
_HIGHEST = "ORDER BY first DESC LIMIT $5"
# A second writer waits for the first, and then finds different versions. Returns the number of rows
# deleted or updated, how many readers the changes of the chain have, and the names of companions.
_REMEMBER = f"""
WITH gone AS (
  DELETE FROM {{ranges}} r USING unnest($2::text[], $3::bigint[], $4::text[]) AS old (d, f, version)
  WHERE r.chain_id = $1 AND r.dataset = old.d AND r.first = old.f AND r.xmin::text = old.version
  RETURNING 1
), come AS (
  SELECT * FROM unnest(
    $5::text[], $6::bigint[], $7::bigint[], $8::bigint[], $9::text[], $10::bigint[], $11::bytea[],
    $12::text[], $13::text[], $14::bytea[], $15::bytea[], $16::text[]) AS c ({COLUMNS}, version)
), changed AS (
  UPDATE {{ranges}} r
  SET last = c.last, fence = c.fence, kind = c.kind, rows = c.rows, digest = c.digest,
      proven = c.proven, unproven = c.unproven, parent_hash = c.parent_hash, last_hash = c.last_hash
  FROM come c
  WHERE r.chain_id = $1 AND r.dataset = c.dataset AND r.first = c.first
    AND r.xmin::text = c.version
  RETURNING 1
), added AS (
  INSERT INTO {{ranges}} (chain_id, {COLUMNS})
  SELECT $1, {COLUMNS} FROM come WHERE version IS NULL
)
SELECT (SELECT count(*) FROM gone) + (SELECT count(*) FROM changed), ({{is_read}}), ({{companions}})
"""  # noqa: S608
_OF_SPAN = "WHERE chain_id = $1 AND block_number BETWEEN $2 AND $3"
# Not `to_regclass`: a session remembers that a table was missing, until it takes a lock on some
# table, and that of the sink is none.
_EXISTS = """
SELECT EXISTS (
  SELECT 1 FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
  WHERE n.nspname = $1 AND c.relname = $2)
"""
_COPIED_FROM = 50  # rows on; fewer are inserted sooner than COPY has asked for their types


class Interleaved(Exception):
    """Another writer has changed a record that was read: start the transaction again."""


@dataclass(frozen=True)
class Ready:
    """Rows encoded for COPY, and their digest."""

    rows: pa.Table
    columns: tuple[str, ...]
    pieces: Sequence[bytes]
    digest: int

    @classmethod
    def of(cls, table: Table, rows: pa.Table) -> Ready:
        columns = columns_with_values(table, rows)
        names = tuple(column.name for column in columns)
        return cls(rows, names, [*copy_stream(columns, rows)], digest(table, rows))


class _Places(dict[str, str]):
    """Every table by its name, in the schema of the sink."""

    def __init__(self, ddl: PostgresDdl) -> None:
        super().__init__()
        self._ddl = ddl

    def __missing__(self, name: str) -> str:
        return self._ddl.place(name)


class PostgresTables:
    """Reads and writes rows and records on a connection, in its current transaction."""

    dialect: SqlDialect = POSTGRES

    def __init__(
        self,
        connection: Connection,
        home: Home,
        ready: Mapping[str, Ready] | None = None,
        *,
        prepared: bool = False,
    ) -> None:
        self._connection = connection.raw
        self._lent = connection
        self._home = home
        self.schema = home.schema
        self._ddl = home.ddl
        self._existing = {*home.existing}
        self._ready = dict(ready or {})
        self._prepared = prepared
        self._ranges = self._ddl.place("_gapless_ranges")
        self._requests = self._ddl.place(requests.TABLE)
        self._versions: dict[tuple[str, int], str] = {}
        self._deferred = False

    async def known(self, chain_id: int, span: Span, limit: int | None = None) -> RangeRecords:
        values: list[object] = [chain_id, [*self.schema, EVERY_DATASET], *span]
        highest = ""
        if limit is not None:
            highest = _HIGHEST
            values.append(limit)
        query = _KNOWN.format(ranges=self._ranges, highest=highest)
        rows = await self._lent.fetch(query, values, prepared=self._prepared)
        self._versions = {(row[0], row[1]): row[-1] for row in rows}
        return records_from(row[:-1] for row in rows)

    async def remember(
        self,
        chain_id: int,
        known: RangeRecords,
        stored: Iterable[Stored],
        retracted: Iterable[Retracted],
    ) -> Observers:
        removed, added = changes(known, stored, retracted)
        left = {*removed} - {row[:2] for row in added}
        removed_rows = [(*key, self._versions[key]) for key in sorted(left)]
        added_rows = [(*row, self._versions.get(row[:2])) for row in sorted(added)]
        values = (chain_id, *_columns(removed_rows, 3), *_columns(added_rows, 12))
        query = _REMEMBER.format(
            ranges=self._ranges,
            is_read=self._placed(feed.IS_READ),
            companions=self._placed(companion.NAMES),
        )
        (row,) = await self._lent.fetch(query, values, prepared=self._prepared)
        changed, readers, names = row
        if changed != len(removed):
            raise Interleaved
        return Observers.of(readers, names)

    async def execute(self, statement: str, *values: object) -> list[Any]:
        return await self._lent.fetch(self._placed(statement), values, prepared=self._prepared)

    async def execute_many(self, statement: str, rows: Collection[Sequence[object]]) -> None:
        if rows:
            await self._connection.executemany(self._placed(statement), rows)

    async def add_rows(
        self, name: str, columns: Sequence[str], rows: Collection[Sequence[object]]
    ) -> None:
        if len(rows) < _COPIED_FROM:
            await self.execute_many(insertion(name, columns), rows)
            return
        await self._connection.copy_records_to_table(
            name, schema_name=self._ddl.schema, columns=columns, records=rows
        )

    async def has(self, name: str) -> bool:
        """Whether the table exists now: another process may have created it."""
        if name not in self._existing:
            if not await self._connection.fetchval(_EXISTS, self._ddl.schema, name):
                return False
            self._existing.add(name)
        return True

    async def exclude_companions(self, chain_id: int) -> None:
        await self._connection.execute(locks.to_accompany(self._home.id, chain_id))

    async def compute(self, function: Callable[P, T], *values: P.args, **named: P.kwargs) -> T:
        return await asyncio.to_thread(function, *values, **named)

    def _placed(self, statement: str) -> str:
        return statement.format_map(_Places(self._ddl))

    def digest_of(self, table: Table, rows: pa.Table) -> int:
        """Return the digest of rows that were just inserted."""
        return self._ready[table.name].digest

    async def create(self, names: Collection[str]) -> None:
        assert {*names} <= self._existing, "tables must be created before the transaction begins"

    async def delete(self, table: Table, chain_id: int, span: Span) -> None:
        if not await self.has(table.name):
            return
        if self._ddl.foreign_keys and not self._deferred:
            self._deferred = True
            await self._connection.execute("SET CONSTRAINTS ALL DEFERRED")
        delete = f"DELETE FROM {self._ddl.place(table.name)} {_OF_SPAN}"  # noqa: S608
        await self._connection.execute(delete, chain_id, *span)

    @asynccontextmanager
    async def whole(self) -> AsyncIterator[None]:
        """Check deferred constraints at the end, when all rows have been replaced."""
        yield
        if self._deferred:
            await self._connection.execute("SET CONSTRAINTS ALL IMMEDIATE")

    async def insert(self, table: Table, rows: pa.Table) -> None:
        ready = self._ready.get(table.name)
        if ready is None or (table is table.anchor and not ready.rows.equals(rows)):
            # The blocks were changed to match stored ones; the rows of other tables never are.
            ready = self._ready[table.name] = await asyncio.to_thread(Ready.of, table, rows)
        if rows.num_rows:
            await self._connection.copy_to_table(
                table.name,
                schema_name=self._ddl.schema,
                columns=ready.columns,
                source=_each(ready.pieces),
                format="binary",
            )

    async def read(
        self, table: Table, chain_id: int, span: Span, columns: Collection[str] | None = None
    ) -> pa.Table:
        names, wanted = await self._wanted(table, columns)
        if not wanted:
            return to_arrow(table, names, [])
        place, order = self._ddl.place(table.name), listed(table.key)
        select = f"SELECT {wanted} FROM {place} {_OF_SPAN} ORDER BY {order}"  # noqa: S608
        rows = await self._fetch(select, chain_id, *_countable(span))
        return await asyncio.to_thread(to_arrow, table, names, rows)

    async def find(
        self, table: Table, chain_id: int, span: Span, column: str, values: Collection[bytes]
    ) -> list[Key]:
        if not await self.has(table.name):
            return []
        select = seeking.keys(table, self._ddl.place(table.name), column)
        rows = await self._fetch(select, [*values], *_countable(span), chain_id)
        return [tuple(row) for row in rows]

    async def read_rows(
        self,
        table: Table,
        chain_id: int,
        keys: Sequence[Key],
        columns: Collection[str] | None = None,
    ) -> pa.Table:
        names, wanted = await self._wanted(table, columns)
        if not wanted or not keys:
            return to_arrow(table, names, [])
        select = seeking.rows(table, self._ddl.place(table.name), wanted)
        rows = await self._fetch(select, chain_id, *map(list, zip(*keys, strict=True)))
        return await asyncio.to_thread(to_arrow, table, names, rows)

    async def _wanted(self, table: Table, columns: Collection[str] | None) -> tuple[list[str], str]:
        """Return names of columns and the list to select; nothing if the table does not exist."""
        names = [it.name for it in table if columns is None or it.name in columns]
        if not await self.has(table.name):
            return names, ""
        existing = {column.name for column in table.columns}
        if table.name in self._home.outdated:
            existing = await columns_of(self._connection, self._ddl, table)
        return names, select_list(table, names, existing)

    async def counts(self, table: Table, chain_id: int, span: Span) -> pa.Table:
        if not await self.has(table.name):
            return COUNTS.empty_table()
        select = (
            f"SELECT block_number, count(*) FROM {self._ddl.place(table.name)} {_OF_SPAN}"  # noqa: S608
            " GROUP BY block_number ORDER BY block_number"
        )
        rows = await self._fetch(select, chain_id, *_countable(span))
        columns: Iterable[Any] = zip(*rows, strict=True) if rows else ((), ())
        return pa.table([pa.array(values, pa.uint64()) for values in columns], COUNTS)

    async def _fetch(self, query: str, *values: object) -> list[Any]:
        return await self._connection.fetch(query, *values)

    async def chains(self) -> list[int]:
        query = f"SELECT DISTINCT chain_id FROM {self._ranges} WHERE kind <> 'retracted'"  # noqa: S608
        found = {row[0] for row in await self._fetch(query)}
        if await self.has(requests.TABLE):
            query = f"SELECT DISTINCT chain_id FROM {self._requests}"  # noqa: S608
            found |= {row[0] for row in await self._fetch(query)}
        return sorted(found)

    async def requests(self, chain_id: int) -> list[Request]:
        if not await self.has(requests.TABLE):  # a sink of an older version
            return []
        query = f"SELECT {requests.COLUMNS} FROM {self._requests} WHERE chain_id = $1"  # noqa: S608
        return requests.merged(map(requests.from_row, await self._fetch(query, chain_id)))

    async def replace_requests(self, chain_id: int, wanted: Iterable[Request]) -> None:
        delete = f"DELETE FROM {self._requests} WHERE chain_id = $1"  # noqa: S608
        await self._connection.execute(delete, chain_id)
        insert = f"INSERT INTO {self._requests} VALUES ($1, $2, $3, $4, $5, $6)"  # noqa: S608
        for each in wanted:
            await self._connection.execute(insert, chain_id, *requests.to_row(each))

    async def highest_fence(self) -> int:
        found = await self._connection.fetchval(
            f"SELECT coalesce(max(fence), 0) FROM {self._ranges}"  # noqa: S608
        )
        return int(found)


async def _each(pieces: Iterable[bytes]) -> AsyncIterator[bytes]:
    for piece in pieces:
        yield piece


def _columns(rows: Sequence[tuple[Any, ...]], width: int) -> list[list[Any]]:
    return [list(column) for column in zip(*rows, strict=True)] if rows else [[]] * width


def _countable(span: Span) -> Span:
    return Span(max(span.first, 0), min(span.last, HIGHEST))
