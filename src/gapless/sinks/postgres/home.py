"""The schema of a PostgreSQL sink: recognised, founded, and given its tables.

A schema is ours if it has `_gapless_sink`, where the sink's id is, and how its tables are made:
with foreign keys or without, partitioned or not. That is decided once. A schema where somebody else
has a table of the same name as ours is refused; the ledger's own schema is `gapless`.

A table, or a partition, is made before the write that needs it, alone in the sink: it is empty, so
nothing is lost if that write never comes.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from uuid import uuid4

import asyncpg

from gapless.core.errors import SinkUnusable
from gapless.core.ranges import Span
from gapless.schema import Schema, Table
from gapless.schema.ddl import quoted
from gapless.schema.postgres import Dialect
from gapless.sinks import range_rows, requests
from gapless.sinks.postgres import locks
from gapless.sinks.postgres.options import Options

VERSION = 1
LEDGER = "gapless"
_CREATE = """
CREATE TABLE {sink} (
  id text NOT NULL,         -- of this very schema: a dropped one that is made anew has another
  version bigint NOT NULL,
  foreign_keys boolean NOT NULL,
  partition bigint          -- heights in each partition of the big tables; null: not partitioned
)
"""
_NAMES = """
SELECT c.relname FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = $1 AND c.relkind IN ('r', 'p')
"""
_COLUMNS = """
SELECT a.attname FROM pg_catalog.pg_attribute a
WHERE a.attrelid = to_regclass($1) AND a.attnum > 0 AND NOT a.attisdropped
"""
_INDEXES = "SELECT indexname FROM pg_catalog.pg_indexes WHERE schemaname = $1"
_SCHEMA = "SELECT 1 FROM pg_catalog.pg_namespace WHERE nspname = $1"


@dataclass(frozen=True)
class Home:
    """What is known of the sink's schema."""

    id: str
    schema: Schema
    dialect: Dialect
    existing: frozenset[str]  # tables and partitions, of ours and of others
    outdated: frozenset[str] = frozenset()  # tables of an older version, which a reader leaves so

    def lacks(self, names: Collection[str], span: Span) -> bool:
        """Whether a write of these tables needs any that is not there yet."""
        wanted = {*names}
        for name in names:
            wanted |= {it.name for it in self.dialect.partitions(self.schema[name], *span)}
        return not wanted <= self.existing


async def names(connection: asyncpg.Connection, schema: str) -> frozenset[str]:
    return frozenset(row[0] for row in await connection.fetch(_NAMES, schema))


async def find_sink(
    connection: asyncpg.Connection, options: Options, schema: Schema
) -> Home | None:
    """The sink that is in the schema; None if none is."""
    existing = await names(connection, options.schema)
    if "_gapless_sink" not in existing:
        return None
    place = Dialect(options.schema).place("_gapless_sink")
    row = await connection.fetchrow(f"SELECT * FROM {place}")  # noqa: S608 - our own names
    assert row is not None
    if row["version"] != VERSION:
        raise SinkUnusable(
            f"{options.shown} has format {row['version']}, this Gapless knows {VERSION}",
            hint="upgrade Gapless",
        )
    options.require_same("fk", options.foreign_keys, row["foreign_keys"])
    options.require_same("partition", options.partition, row["partition"])
    dialect = Dialect(options.schema, row["foreign_keys"], row["partition"])
    return Home(row["id"], schema, dialect, existing)


async def create_schema(connection: asyncpg.Connection, options: Options, schema: Schema) -> None:
    """Makes a sink of the schema, unless another process just did or it is somebody else's.

    A sink of an older version gets the table of requests.
    """
    await connection.execute(locks.to_create(options.schema))
    existing = await names(connection, options.schema)
    dialect = Dialect(options.schema)
    if "_gapless_sink" in existing:
        await connection.execute(_create_requests(dialect))
        return
    if options.schema == LEDGER:
        raise SinkUnusable(
            f"the schema `{LEDGER}` is the ledger's: records need one of their own",
            hint="leave `schema=` out, or name another",
        )
    if taken := sorted(existing & schema.keys()):
        raise SinkUnusable(
            f"{options.shown} has a table `{taken[0]}` that is not of Gapless",
            hint="name another schema with `?schema=…`",
        )
    if not await connection.fetch(_SCHEMA, options.schema):
        await connection.execute(f"CREATE SCHEMA {quoted(options.schema)}")
    sink = dialect.place("_gapless_sink")
    await connection.execute(_CREATE.format(sink=sink))
    ranges = range_rows.create(dialect.place("_gapless_ranges"), "bigint", "bytea")
    await connection.execute(f"{ranges} WITH (fillfactor = 70)")
    await connection.execute(_create_requests(dialect))
    await connection.execute(
        f"INSERT INTO {sink} VALUES ($1, $2, $3, $4)",  # noqa: S608
        str(uuid4()),
        VERSION,
        options.foreign_keys is not False,
        options.partition,
    )


def _create_requests(dialect: Dialect) -> str:
    return requests.create(dialect.place(requests.TABLE), "bigint")


async def create_tables(
    connection: asyncpg.Connection, home: Home, wanted: Collection[str], span: Span
) -> None:
    """Makes the tables and partitions that a write needs, in a transaction of its own."""
    dialect = home.dialect
    await connection.execute(locks.to_change(home.id))
    existing = await names(connection, dialect.schema)
    for name in wanted:
        table = home.schema[name]
        if name not in existing:
            await connection.execute(dialect.create_table(table, {*existing, *wanted}))
            await connection.execute(dialect.create_view(table))
        for partition in dialect.partitions(table, *span):
            if partition.name not in existing:
                for statement in dialect.create_partition(partition):
                    await connection.execute(statement)


async def outdated(connection: asyncpg.Connection, home: Home, shown: str) -> list[Table]:
    """Tables of an older version, which lack columns; those of another kind are refused."""
    found = []
    for each in home.schema.tables:
        if each.name in home.existing:
            existing = await columns(connection, home.dialect, each)
            missing = [column for column in each.columns if column.name not in existing]
            if len(existing) + len(missing) > len(each.columns) or not all(
                column.nullable for column in missing
            ):
                raise SinkUnusable(
                    f"{shown} has other columns in `{each.name}` than this Gapless",
                    hint="use the Gapless that wrote it, or fetch into a new schema",
                )
            if missing:
                found.append(each)
    return found


async def extend(connection: asyncpg.Connection, home: Home, tables: Collection[Table]) -> None:
    """Adds columns to tables of an older version. They are nullable, so digests still hold."""
    await connection.execute(locks.to_change(home.id))
    for each in tables:
        existing = await columns(connection, home.dialect, each)
        await connection.execute(home.dialect.drop_view(each))
        for column in each.columns:
            if column.name not in existing:
                await connection.execute(home.dialect.add_column(each, column))
        await connection.execute(home.dialect.create_view(each))


async def missing_indexes(connection: asyncpg.Connection, home: Home) -> list[str]:
    """The statements that build what is not there yet."""
    dialect = home.dialect
    tables = await names(connection, dialect.schema)
    built = {row[0] for row in await connection.fetch(_INDEXES, dialect.schema)}
    return [
        statement
        for each in home.schema.tables
        if each.name in tables
        for name, statement in dialect.create_indexes(each).items()
        if name not in built
    ]


async def columns(connection: asyncpg.Connection, dialect: Dialect, table: Table) -> set[str]:
    """The columns that a table has by now."""
    return {row[0] for row in await connection.fetch(_COLUMNS, dialect.place(table.name))}
