"""The tables of a PostgreSQL sink: what a transaction does with rows and records.

Rows go by binary COPY straight to their table. Records are read before, and once more when they are
about to change, under the lock of the chain: if someone has changed one of them meanwhile (two may
cut one long range at far places), the transaction has to begin anew.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Iterable
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import pyarrow as pa

from gapless.core.ranges import Span
from gapless.schema import TABLES, Table
from gapless.schema.ddl import listed
from gapless.schema.postgres import Dialect
from gapless.sinks.entries import COLUMNS, changes, known_by
from gapless.sinks.postgres import locks
from gapless.sinks.postgres.copying import copied, filled
from gapless.sinks.postgres.rows import selected, to_arrow
from gapless.sinks.records import Known, Retracted
from gapless.sinks.sink import COUNTS, HIGHEST, Stored

CREATE_RANGES = """
CREATE TABLE {ranges} (
  chain_id bigint NOT NULL,
  dataset text NOT NULL,
  first bigint NOT NULL,
  last bigint NOT NULL,
  fence bigint NOT NULL,
  kind text NOT NULL,      -- 'written' or 'retracted'
  rows bigint NOT NULL,
  digest bytea NOT NULL,
  proven text NOT NULL,    -- names of checks, with spaces between them
  unproven text NOT NULL,
  parent_hash bytea NOT NULL,
  last_hash bytea NOT NULL,
  PRIMARY KEY (chain_id, dataset, first),
  CHECK (first <= last)
) WITH (fillfactor = 70)
"""
# Ranges are disjoint, so of those that begin before ours only the last one can reach into it.
_KNOWN = f"""
SELECT r.* FROM unnest($2::text[]) WITH ORDINALITY AS wanted (name, nth) CROSS JOIN LATERAL (
  SELECT {COLUMNS} FROM {{ranges}}
  WHERE chain_id = $1 AND dataset = wanted.name AND last >= $3 AND first <= $4
    AND first >= coalesce((SELECT max(first) FROM {{ranges}}
      WHERE chain_id = $1 AND dataset = wanted.name AND first <= $3), 0)
) AS r ORDER BY wanted.nth, r.first
"""  # noqa: S608 - our own names
_FORGET = """
DELETE FROM {ranges} USING unnest($2::text[], $3::bigint[]) AS gone (dataset, first)
WHERE chain_id = $1 AND {ranges}.dataset = gone.dataset AND {ranges}.first = gone.first
"""
_REMEMBER = f"""
INSERT INTO {{ranges}} (chain_id, {COLUMNS})
SELECT $1, * FROM unnest(
  $2::text[], $3::bigint[], $4::bigint[], $5::bigint[], $6::text[], $7::bigint[], $8::bytea[],
  $9::text[], $10::text[], $11::bytea[], $12::bytea[])
ON CONFLICT (chain_id, dataset, first) DO UPDATE
SET last = excluded.last, fence = excluded.fence, kind = excluded.kind, rows = excluded.rows,
    digest = excluded.digest, proven = excluded.proven, unproven = excluded.unproven,
    parent_hash = excluded.parent_hash, last_hash = excluded.last_hash
"""  # noqa: S608
_OF_SPAN = "WHERE chain_id = $1 AND block_number BETWEEN $2 AND $3"
_ALL = [each.name for each in TABLES]


class Interleaved(Exception):
    """Someone else has changed a record that was read: begin anew."""


class PostgresTables:
    """Rows and records, read and written on one connection, in the transaction it is in."""

    def __init__(
        self, connection: asyncpg.Connection, sink_id: str, dialect: Dialect, there: Collection[str]
    ) -> None:
        self._connection = connection
        self._sink_id = sink_id
        self._dialect = dialect
        self._there = {*there}
        self._ranges = dialect.place("_gapless_ranges")
        self._deferred = False

    async def known(self, chain_id: int, span: Span) -> Known:
        query = _KNOWN.format(ranges=self._ranges)
        return known_by(await self._fetch(query, chain_id, _ALL, *span))

    async def remember(
        self,
        chain_id: int,
        known: Known,
        stored: Iterable[Stored],
        retracted: Iterable[Retracted],
    ) -> None:
        gone, come = changes(known, stored, retracted)
        await self._connection.execute(locks.to_record(self._sink_id, chain_id))
        await self._insist(chain_id, known)
        left = {*gone} - {(dataset, first) for dataset, first, *_ in come}
        if left:
            forget = _FORGET.format(ranges=self._ranges)
            await self._connection.execute(forget, chain_id, *map(list, zip(*left, strict=True)))
        if come:
            remember = _REMEMBER.format(ranges=self._ranges)
            await self._connection.execute(remember, chain_id, *map(list, zip(*come, strict=True)))

    async def _insist(self, chain_id: int, known: Known) -> None:
        """Raises unless all that was known still is so."""
        query = (
            f"SELECT {COLUMNS} FROM {self._ranges} JOIN unnest($2::text[], $3::bigint[])"  # noqa: S608
            f" AS before (d, f) ON dataset = d AND first = f WHERE chain_id = $1"
        )
        keys = [(it.dataset, it.span.first) for it in known.stored]
        keys += [(_ALL[0], it.span.first) for it in known.retracted]
        rows = await self._fetch(
            query, chain_id, [name for name, _ in keys], [first for _, first in keys]
        )
        now = known_by(rows)
        if {*now.stored} != {*known.stored} or {*now.retracted} != {*known.retracted}:
            raise Interleaved

    async def create(self, names: Collection[str]) -> None:
        assert {*names} <= self._there, "tables are made before the transaction begins"

    async def delete(self, table: Table, chain_id: int, span: Span) -> None:
        if self._dialect.foreign_keys and not self._deferred:
            self._deferred = True
            await self._connection.execute("SET CONSTRAINTS ALL DEFERRED")
        delete = f"DELETE FROM {self._dialect.place(table.name)} {_OF_SPAN}"  # noqa: S608
        await self._connection.execute(delete, chain_id, *span)

    @asynccontextmanager
    async def whole(self) -> AsyncIterator[None]:
        """Checks at the end what could not be checked as long as rows were missing."""
        yield
        if self._deferred:
            await self._connection.execute("SET CONSTRAINTS ALL IMMEDIATE")

    async def insert(self, table: Table, rows: pa.Table) -> None:
        if not rows.num_rows:
            return
        columns = filled(table, rows)
        pieces = await asyncio.to_thread(lambda: [*copied(columns, rows)])
        await self._connection.copy_to_table(
            table.name,
            schema_name=self._dialect.schema,
            columns=[column.name for column in columns],
            source=_each(pieces),
            format="binary",
        )

    async def read(
        self, table: Table, chain_id: int, span: Span, columns: Collection[str] | None = None
    ) -> pa.Table:
        names = [it.name for it in table if columns is None or it.name in columns]
        if not await self._has(table):
            return to_arrow(table, names, [])
        select = (
            f"SELECT {selected(table, names)} FROM {self._dialect.place(table.name)} {_OF_SPAN}"  # noqa: S608
            f" ORDER BY {listed(table.key)}"
        )
        rows = await self._fetch(select, chain_id, *_countable(span))
        return await asyncio.to_thread(to_arrow, table, names, rows)

    async def counts(self, table: Table, chain_id: int, span: Span) -> pa.Table:
        if not await self._has(table):
            return COUNTS.empty_table()
        select = (
            f"SELECT block_number, count(*) FROM {self._dialect.place(table.name)} {_OF_SPAN}"  # noqa: S608
            " GROUP BY block_number ORDER BY block_number"
        )
        rows = await self._fetch(select, chain_id, *_countable(span))
        columns: Iterable[Any] = zip(*rows, strict=True) if rows else ((), ())
        return pa.table([pa.array(values, pa.uint64()) for values in columns], COUNTS)

    async def _fetch(self, query: str, *values: object) -> list[Any]:
        return await self._connection.fetch(query, *values)

    async def _has(self, table: Table) -> bool:
        """Whether the table is there by now: other processes make some, too."""
        if table.name not in self._there:
            place = self._dialect.place(table.name)
            if await self._connection.fetchval("SELECT to_regclass($1) IS NULL", place):
                return False
            self._there.add(table.name)
        return True

    async def chains(self) -> list[int]:
        query = f"SELECT DISTINCT chain_id FROM {self._ranges} WHERE kind = 'written' ORDER BY 1"  # noqa: S608
        return [row[0] for row in await self._fetch(query)]

    async def highest_fence(self) -> int:
        found = await self._connection.fetchval(
            f"SELECT coalesce(max(fence), 0) FROM {self._ranges}"  # noqa: S608
        )
        return int(found)


async def _each(pieces: Iterable[bytes]) -> AsyncIterator[bytes]:
    for piece in pieces:
        yield piece


def _countable(span: Span) -> Span:
    return Span(max(span.first, 0), min(span.last, HIGHEST))
