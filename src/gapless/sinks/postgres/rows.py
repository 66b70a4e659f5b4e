"""Rows from PostgreSQL to Arrow.

A 256-bit number is selected as text, which Python parses faster than the binary digits of
`numeric`. The rounded column that other sinks store is computed, with the same result.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import pyarrow as pa

from gapless.schema import F64, Column, Kind, Table
from gapless.schema.arrow import arrow_schema, arrow_type
from gapless.schema.ddl import quoted


def select_list(table: Table, names: Sequence[str], existing: Collection[str]) -> str:
    """Return the select list for these columns, in the order of the schema.

    Columns that a table of an older version lacks are null.
    """
    return ", ".join(_select_item(each, existing) for each in _sources(table, names))


def _select_item(column: Column, existing: Collection[str]) -> str:
    if column.name not in existing:
        return "NULL"
    name = quoted(column.name)
    return f"{name}::text" if column.kind is Kind.U256 else name


def to_arrow(table: Table, names: Sequence[str], rows: Sequence[Sequence[Any]]) -> pa.Table:
    """Return these columns, from rows selected with `select_list`."""
    whole = arrow_schema(table)
    schema = pa.schema([whole.field(name) for name in names])
    if not rows:
        return schema.empty_table()
    arrays: dict[str, pa.Array] = {}
    for column, values in zip(_sources(table, names), zip(*rows, strict=True), strict=True):
        arrays |= _arrays(column, values)
    return pa.table([arrays[name] for name in names], schema)


def _sources(table: Table, names: Sequence[str]) -> list[Column]:
    wanted = {name.removesuffix(F64) for name in names}
    return [column for column in table.columns if column.name in wanted]


def _arrays(column: Column, values: Sequence[Any]) -> dict[str, pa.Array]:
    if column.kind is Kind.U256:
        numbers = [None if text is None else int(text) for text in values]
        exact = [None if it is None else it.to_bytes(32, "big") for it in numbers]
        nearest = [None if it is None else float(it) for it in numbers]
        return {
            column.name: pa.array(exact, arrow_type(Kind.U256)),
            column.name + F64: pa.array(nearest, arrow_type(Kind.FLOAT)),
        }
    if column.kind is Kind.INT:
        return {column.name: pa.array(values, pa.int64()).view(pa.uint64())}
    return {column.name: pa.array(values, arrow_type(column.kind))}
