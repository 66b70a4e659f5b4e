"""Queries that fetch single rows by index, however large the table is and whatever its statistics.

A subquery that is evaluated for each wanted value (`LATERAL`, with `OFFSET 0`, which the planner
does not dissolve) leaves it no other choice than a search for that value.
"""

from __future__ import annotations

from gapless.schema import Table
from gapless.schema.ddl import listed, quoted


def keys(table: Table, place: str, column: str) -> str:
    """Return a query for the keys of rows that have one of some values in a column.

    The `+` keeps PostgreSQL from walking through all rows of the chain instead.
    """
    return f"""
SELECT found.* FROM unnest($1::bytea[]) AS wanted (value) CROSS JOIN LATERAL (
  SELECT {listed(table.key[1:])} FROM {place}
  WHERE {quoted(column)} = wanted.value AND block_number BETWEEN $2 AND $3 AND +chain_id = $4
  OFFSET 0
) AS found
"""  # noqa: S608 - our own names


def rows(table: Table, place: str, columns: str) -> str:
    """Return a query for the rows with some keys, in the order of the keys."""
    parts = [f"part{at}" for at in range(1, len(table.key))]
    arrays = ", ".join(f"${at}::bigint[]" for at in range(2, len(table.key) + 1))
    of_key = " AND ".join(
        f"{quoted(name)} = wanted.{part}" for name, part in zip(table.key[1:], parts, strict=True)
    )
    return f"""
SELECT found.*
FROM unnest({arrays}) WITH ORDINALITY AS wanted ({", ".join(parts)}, nth) CROSS JOIN LATERAL (
  SELECT {columns} FROM {place} WHERE chain_id = $1 AND {of_key} OFFSET 0
) AS found
ORDER BY wanted.nth
"""  # noqa: S608 - our own names
