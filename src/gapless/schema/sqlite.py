"""The tables in SQLite: DDL, indexes, and the views that people read.

Tables keep their rowid: with blobs of this size, loading a table without rowid was measured to be
slower. Indexes are separate statements, because a bulk load is fastest when they are built after
it; the primary key is enough to replace, retract and verify a range.

SQLite's integers are limited to 2^63. A larger one (heights and gas are smaller in practice, but
some nodes report a `gasLimit` of 2^64-1) is stored as its two's complement, so nothing is lost.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from gapless.schema.ddl import definition, listed, nearest_parent, quoted
from gapless.schema.table import Column, Kind, Table

_TYPES = {
    Kind.INT: "INTEGER",
    Kind.BOOL: "INTEGER",
    Kind.FLOAT: "REAL",
    Kind.TEXT: "TEXT",
    Kind.JSON: "TEXT",
}


def create_table(
    table: Table, *, foreign_keys: bool = True, stored: Collection[str] | None = None
) -> str:
    """Returns `CREATE TABLE`; a foreign key refers to the nearest stored parent."""
    lines = [_definition(column) for column in table]
    lines.append(f"PRIMARY KEY ({listed(table.key)})")
    if foreign_keys:
        lines.extend(_reference(table, stored))
    body = ",\n  ".join(lines)
    return f"CREATE TABLE IF NOT EXISTS {table.name} (\n  {body}\n) STRICT"


def add_column(table: Table, column: Column) -> str:
    return f"ALTER TABLE {table.name} ADD COLUMN {_definition(column)}"


def create_view(table: Table) -> str:
    """`CREATE VIEW` of `<table>_hex`: bytes as hex, the time also as text."""
    body = ",\n  ".join(expression for column in table for expression in _readable(column))
    return f"CREATE VIEW IF NOT EXISTS {table.name}_hex AS SELECT\n  {body}\nFROM {table.name}"


def drop_view(table: Table) -> str:
    return f"DROP VIEW IF EXISTS {table.name}_hex"


def _definition(column: Column) -> str:
    return definition(column, _TYPES, "BLOB")


def _reference(child: Table, stored: Collection[str] | None) -> Iterator[str]:
    parent = nearest_parent(child, stored)
    if parent is not None:
        key = listed(parent.key)
        yield f"FOREIGN KEY ({key}) REFERENCES {parent.name} ({key})"


def _readable(column: Column) -> Iterator[str]:
    name = quoted(column.name)
    if column.kind is Kind.BYTES or column.kind.width is not None:
        text = f"'0x' || {_digits(column, name)}"
        yield f"{f'iif({name} IS NULL, NULL, {text})' if column.nullable else text} AS {name}"
    else:
        yield name
    if column.name == "block_timestamp":
        yield f"datetime({name}, 'unixepoch') AS block_time"


def _digits(column: Column, name: str) -> str:
    digits = f"lower(hex({name}))"
    if column.kind in (Kind.U256, Kind.WORD):
        return f"coalesce(nullif(ltrim({digits}, '0'), ''), '0')"
    return digits
