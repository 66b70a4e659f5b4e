"""Rows of a table from text, as in the CSV or JSON of ethereum-etl."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa

from gapless.schema import Column, Kind
from gapless.schema.arrow import arrow_schema
from tests.evm import table

_RENAMED = {"block_number": "number", "block_timestamp": "timestamp", "type": "transaction_type"}


def as_stored(name: str, rows: Iterable[Mapping[str, Any]]) -> pa.Table:
    """The rows as a sink would return them; missing values are zero or null."""
    found = [{column.name: _value(column, row) for column in table(name)} for row in rows]
    return pa.Table.from_pylist(found, arrow_schema(table(name)))


def _value(column: Column, row: Mapping[str, Any]) -> Any:
    if column.name.startswith("topic") and "topics" in row:
        topics = [bytes.fromhex(it.removeprefix("0x")) for it in row["topics"].split(",")]
        return dict(enumerate(topics)).get(int(column.name[-1]))
    given = row.get(column.name, row.get(_RENAMED.get(column.name, ""), None))
    if given in (None, ""):
        return None if column.nullable else _ZEROS.get(column.kind, bytes(column.kind.width or 0))
    if column.kind is Kind.U256:
        return int(given).to_bytes(32, "big")
    if column.kind in _ZEROS:
        return type(_ZEROS[column.kind])(given)
    return bytes.fromhex(given.removeprefix("0x"))


_ZEROS: dict[Kind, Any] = {Kind.INT: 0, Kind.FLOAT: 0.0, Kind.JSON: "[]", Kind.BOOL: False}
