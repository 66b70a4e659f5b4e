"""Find the sink in a PostgreSQL schema, or create it and its tables.

A schema is a sink if it has the table `_gapless_sink`. It stores the sink's id, and whether its
tables have foreign keys and partitions, which is decided when the sink is created. A schema with
tables of the same names that Gapless did not create is refused, and so is `gapless`, the schema of
the ledger.

Tables and partitions are created before the write that needs them, with the whole sink locked. They
are empty, so it does no harm if that write never happens.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from uuid import uuid4

import asyncpg

from gapless.core.errors import SinkUnusable
from gapless.core.ranges import Span
from gapless.schema import Index, Schema, Table
from gapless.schema.ddl import create_index, quoted
from gapless.schema.postgres import PostgresDdl
from gapless.sinks import companion, feed, range_rows, requests
from gapless.sinks.postgres import locks
from gapless.sinks.postgres.options import Options

VERSION = 1
OWN_TABLES = {requests.TABLE, *feed.TABLES, companion.TABLE}
LEDGER = "gapless"
_CREATE = """
CREATE TABLE {sink} (
  id text NOT NULL,         -- of this schema: one that is dropped and created again gets a new id
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
    """The properties of the schema that a sink is in."""

    id: str
    schema: Schema
    ddl: PostgresDdl
    existing: frozenset[str]  # all tables and partitions, including those of other programs
    outdated: frozenset[str] = (
        frozenset()
    )  # tables of an older version, which readers do not upgrade

    def lacks(self, names: Collection[str], span: Span) -> bool:
        """Whether a write needs a table or a partition that does not exist yet."""
        wanted = {*names}
        for name in names:
            wanted |= {it.name for it in self.ddl.partitions(self.schema[name], *span)}
        return not wanted <= self.existing


async def names(connection: asyncpg.Connection, schema: str) -> frozenset[str]:
    return frozenset(row[0] for row in await connection.fetch(_NAMES, schema))


async def find_sink(
    connection: asyncpg.Connection, options: Options, schema: Schema
) -> Home | None:
    """Return the sink in the schema; None if there is none."""
    existing = await names(connection, options.schema)
    if "_gapless_sink" not in existing:
        return None
    place = PostgresDdl(options.schema).place("_gapless_sink")
    row = await connection.fetchrow(f"SELECT * FROM {place}")  # noqa: S608 - our own names
    assert row is not None
    if row["version"] != VERSION:
        raise SinkUnusable(
            f"{options.shown} has format {row['version']},"
            f" but this version of Gapless supports format {VERSION}",
            hint="upgrade Gapless",
        )
    options.require_same("fk", options.foreign_keys, row["foreign_keys"])
    options.require_same("partition", options.partition, row["partition"])
    ddl = PostgresDdl(options.schema, row["foreign_keys"], row["partition"])
    return Home(row["id"], schema, ddl, existing)


async def create_schema(connection: asyncpg.Connection, options: Options, schema: Schema) -> None:
    """Create the sink in the schema, unless another process just did.

    Refuse the ledger's schema, and one where other programs have tables with the same names.

    Add the tables that a sink of an older version lacks.
    """
    await connection.execute(locks.to_create(options.schema))
    existing = await names(connection, options.schema)
    ddl = PostgresDdl(options.schema)
    if "_gapless_sink" in existing:
        await _create_own_tables(connection, ddl)
        return
    if options.schema == LEDGER:
        raise SinkUnusable(
            f"the schema `{LEDGER}` belongs to the ledger; rows need a separate schema",
            hint="omit `schema=`, or name another schema",
        )
    if taken := sorted(existing & schema.keys()):
        raise SinkUnusable(
            f"{options.shown} has a table `{taken[0]}` that Gapless did not create",
            hint="name another schema with `?schema=…`",
        )
    if not await connection.fetch(_SCHEMA, options.schema):
        await connection.execute(f"CREATE SCHEMA {quoted(options.schema)}")
    sink = ddl.place("_gapless_sink")
    await connection.execute(_CREATE.format(sink=sink))
    ranges = range_rows.create(ddl.place("_gapless_ranges"), "bigint", "bytea")
    await connection.execute(f"{ranges} WITH (fillfactor = 70)")
    await _create_own_tables(connection, ddl)
    await connection.execute(
        f"INSERT INTO {sink} VALUES ($1, $2, $3, $4)",  # noqa: S608
        str(uuid4()),
        VERSION,
        options.foreign_keys is not False,
        options.partition,
    )


async def _create_own_tables(connection: asyncpg.Connection, ddl: PostgresDdl) -> None:
    """Create the tables that sinks of older versions lack."""
    places = {name: ddl.place(name) for name in feed.PLACES}
    await connection.execute(requests.create(ddl.place(requests.TABLE), "bigint"))
    for statement in feed.create(places, "bigint"):
        await connection.execute(statement)
    await connection.execute(companion.create(ddl.place(companion.TABLE), "bigint"))


async def create_tables(
    connection: asyncpg.Connection, home: Home, wanted: Collection[str], span: Span
) -> None:
    """Create the tables and partitions that a write needs, in a separate transaction."""
    ddl = home.ddl
    await connection.execute(locks.to_change(home.id))
    existing = await names(connection, ddl.schema)
    for name in wanted:
        table = home.schema[name]
        if name not in existing:
            await connection.execute(ddl.create_table(table, {*existing, *wanted}))
            await connection.execute(ddl.create_view(table))
        for partition in ddl.partitions(table, *span):
            if partition.name not in existing:
                for statement in ddl.create_partition(partition):
                    await connection.execute(statement)


async def outdated(connection: asyncpg.Connection, home: Home, shown: str) -> list[Table]:
    """Return tables of an older version, which lack columns; raise for incompatible ones."""
    found = []
    for each in home.schema.tables:
        if each.name in home.existing:
            existing = await columns(connection, home.ddl, each)
            missing = [column for column in each.columns if column.name not in existing]
            if len(existing) + len(missing) > len(each.columns) or not all(
                column.nullable for column in missing
            ):
                raise SinkUnusable(
                    f"the columns of `{each.name}` in {shown} do not match this version of Gapless",
                    hint="use the version of Gapless that wrote it, or fetch into a new schema",
                )
            if missing:
                found.append(each)
    return found


async def extend(connection: asyncpg.Connection, home: Home, tables: Collection[Table]) -> None:
    """Add columns to tables of an older version. They are nullable: digests stay valid."""
    await connection.execute(locks.to_change(home.id))
    for each in tables:
        existing = await columns(connection, home.ddl, each)
        await connection.execute(home.ddl.drop_view(each))
        for column in each.columns:
            if column.name not in existing:
                await connection.execute(home.ddl.add_column(each, column))
        await connection.execute(home.ddl.create_view(each))


async def missing_indexes(
    connection: asyncpg.Connection, ddl: PostgresDdl, indexes: Mapping[str, Collection[Index]]
) -> list[str]:
    """Return the statements that build those indexes of existing tables that do not exist yet."""
    tables = await names(connection, ddl.schema)
    built = {row[0] for row in await connection.fetch(_INDEXES, ddl.schema)}
    return [
        create_index(index, ddl.place(name))
        for name, wanted in indexes.items()
        if name in tables
        for index in wanted
        if index.name not in built
    ]


async def columns(connection: asyncpg.Connection, ddl: PostgresDdl, table: Table) -> set[str]:
    """Return the current columns of a table."""
    return {row[0] for row in await connection.fetch(_COLUMNS, ddl.place(table.name))}
