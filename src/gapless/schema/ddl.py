"""DDL that the SQL dialects share: names, parents and indexes."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from gapless.schema.table import Column, Index, Kind, Table


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def listed(names: Iterable[str]) -> str:
    return ", ".join(map(quoted, names))


def definition(column: Column, types: Mapping[Kind, str], otherwise: str) -> str:
    """Returns a column of `CREATE TABLE` with the type of its kind."""
    type_ = types.get(column.kind, otherwise)
    return f"{quoted(column.name)} {type_}{'' if column.nullable else ' NOT NULL'}"


def nearest_parent(child: Table, stored: Collection[str] | None) -> Table | None:
    """Returns the target of a foreign key: the nearest stored parent (`stored` None: all are)."""
    return next((it for it in child.parents if stored is None or it.name in stored), None)


def create_index(index: Index, place: str) -> str:
    """Returns `CREATE INDEX` for a table with this qualified name."""
    where = f" WHERE {index.only}" if index.only else ""
    return f"CREATE INDEX IF NOT EXISTS {index.name} ON {place} ({listed(index.columns)}){where}"
