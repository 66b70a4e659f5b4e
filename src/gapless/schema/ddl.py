"""What the SQL dialects say alike of the tables: names, parents, indexes."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from gapless.schema.tables import TABLES, Index, Table, table

EVERY = frozenset(each.name for each in TABLES)


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def listed(names: Iterable[str]) -> str:
    return ", ".join(map(quoted, names))


def nearest_parent(child: Table, stored: Collection[str]) -> Table | None:
    """The table that a foreign key leads to: the nearest parent that is stored too."""
    return next((table(name) for name in child.parents if name in stored), None)


def create_index(index: Index, place: str) -> str:
    """`CREATE INDEX` on a table that goes by this name."""
    where = f" WHERE {index.only}" if index.only else ""
    return f"CREATE INDEX IF NOT EXISTS {index.name} ON {place} ({listed(index.columns)}){where}"
