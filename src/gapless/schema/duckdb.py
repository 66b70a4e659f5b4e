"""The tables in DuckDB: DDL, and the views that people read.

There are no keys and no indexes: they double the time of an insert, and rows stored in height order
are found by the minimum and maximum of each row group. The sink's records prevent duplicates
instead of keys, and verification detects them.

Numbers are unsigned 64-bit, as in the nodes' answers. A 256-bit number is stored as 32 bytes and a
double, as everywhere but in PostgreSQL: DuckDB has no number type that large.
"""

from __future__ import annotations

from collections.abc import Iterator

from gapless.schema.ddl import definition, quoted
from gapless.schema.table import Column, Kind, Table

_TYPES = {
    Kind.INT: "UBIGINT",
    Kind.BOOL: "BOOLEAN",
    Kind.FLOAT: "DOUBLE",
    Kind.TEXT: "VARCHAR",
    Kind.JSON: "VARCHAR",
}


def create_table(table: Table) -> str:
    body = ",\n  ".join(_definition(column) for column in table)
    return f"CREATE TABLE {table.name} (\n  {body}\n)"


def add_column(table: Table, column: Column) -> str:
    return f"ALTER TABLE {table.name} ADD COLUMN {_definition(column)}"


def create_view(table: Table) -> str:
    """`CREATE VIEW` of `<table>_hex`: bytes as hex, the time also as a time."""
    body = ",\n  ".join(expression for column in table for expression in _readable(column))
    return f"CREATE OR REPLACE VIEW {table.name}_hex AS SELECT\n  {body}\nFROM {table.name}"


def _definition(column: Column) -> str:
    return definition(column, _TYPES, "BLOB")


def _readable(column: Column) -> Iterator[str]:
    name = quoted(column.name)
    if column.kind in _TYPES:
        yield name
    elif column.kind in (Kind.U256, Kind.WORD):
        digits = f"coalesce(nullif(ltrim(lower(hex({name})), '0'), ''), '0')"
        yield f"CASE WHEN {name} IS NOT NULL THEN '0x' || {digits} END AS {name}"
    else:
        yield f"'0x' || lower(hex({name})) AS {name}"
    if column.name == "block_timestamp":
        yield f"make_timestamp(CAST({name} AS BIGINT) * 1000000) AS block_time"
