"""Rows of any table, for laws about rows."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from gapless.schema import Column, Kind, Table
from gapless.schema.arrow import arrow_schema
from tests.evm import EVERY_TABLE

Row = dict[str, Any]

_VALUES: dict[Kind, st.SearchStrategy[Any]] = {
    Kind.INT: st.sampled_from([0, 1, 2**63, 2**64 - 1]),
    Kind.BYTES: st.binary(max_size=3),
    Kind.TEXT: st.sampled_from(["", "é", "ten"]),
    Kind.JSON: st.sampled_from(["", "[]", "é", '{"a":1}']),
    Kind.FLOAT: st.sampled_from([0.0, 1.0, 1e77]),
    Kind.BOOL: st.booleans(),
}


def values(column: Column) -> st.SearchStrategy[Any]:
    width = column.kind.width
    if width is None:
        plain = _VALUES[column.kind]
    else:
        plain = st.sampled_from([bytes(width), b"\1" * width, bytes(width - 1) + b"\1"])
    return st.none() | plain if column.nullable else plain


@st.composite
def some_rows(draw: st.DrawFn, table: Table, most: int = 6) -> list[Row]:
    """Rows of one chain in key order."""
    positions = st.tuples(*(st.integers(0, 3) for _ in table.key[1:]))
    keys = sorted(draw(st.sets(positions, min_size=1, max_size=most)))
    others = st.fixed_dictionaries(
        {column.name: values(column) for column in table if column.name not in table.key}
    )
    return [{**dict(zip(table.key, (7, *key), strict=True)), **draw(others)} for key in keys]


tables_with_rows = st.sampled_from(EVERY_TABLE).flatmap(
    lambda table: st.tuples(st.just(table), some_rows(table))
)


def arrow(table: Table, rows: list[Row]) -> pa.Table:
    return pa.Table.from_pylist(rows, arrow_schema(table))
