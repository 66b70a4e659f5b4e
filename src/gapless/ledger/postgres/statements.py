"""The ledger's statements in the dialect of PostgreSQL."""

from __future__ import annotations

from collections.abc import Mapping

from gapless.ledger import sql
from gapless.ledger.fragments import Dialect

_TYPES = {int: "bigint", float: "float8", str: "text"}


def _items(parameter: str, types: Mapping[str, type]) -> str:
    columns = ", ".join(f"{name} {_TYPES[kind]}" for name, kind in types.items())
    rows = f"json_to_recordset(:{parameter}::json) AS ({columns})"
    return f"SELECT * FROM ROWS FROM ({rows}) WITH ORDINALITY"  # noqa: S608 - our own names


def _field(column: str, name: str) -> str:
    return f"({column}::json ->> '{name}')::bigint"


DIALECT = Dialect(
    now="coalesce(:now::float8, date_part('epoch', statement_timestamp()))",
    least="least",
    field=_field,
    items=_items,
)
STATEMENTS = sql.load(__package__, DIALECT)
NUMBERED = {name: statement.numbered() for name, statement in STATEMENTS.items()}
