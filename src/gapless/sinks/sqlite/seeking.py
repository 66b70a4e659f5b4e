"""Queries that fetch single rows by index, however large the table is."""

from __future__ import annotations

from gapless.schema import Table
from gapless.schema.ddl import listed, quoted


def keys(table: Table, column: str) -> str:
    """Return a query for the keys of rows that have a value in a column.

    The `+` keeps SQLite from walking through all rows of the chain instead.
    """
    return (
        f"SELECT {listed(table.key[1:])} FROM {table.name}"  # noqa: S608 - our own names
        f" WHERE {quoted(column)} = ? AND block_number BETWEEN ? AND ? AND +chain_id = ?"
    )


def rows(table: Table, columns: str) -> str:
    """Return a query for the row with a key."""
    of_key = " AND ".join(f"{quoted(name)} = ?" for name in table.key)
    return f"SELECT {columns} FROM {table.name} WHERE {of_key}"  # noqa: S608 - our own names
