"""The tables as documentation: the reference pages are generated from them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gapless.schema.table import Column, Table


def reference(tables: Iterable[Table]) -> str:
    """The tables, as Markdown."""
    return "\n".join(line for table in tables for line in (*_section(table), ""))


def _section(table: Table) -> Iterator[str]:
    yield f"## `{table.name}`"
    yield ""
    yield table.doc
    yield f"Key: {_names(table.key)}."
    yield ""
    yield "| column | type | null | meaning |"
    yield "|---|---|---|---|"
    yield from map(_row, table)
    yield ""
    yield "Indexes:"
    yield ""
    for index in table.indexes:
        where = f" where `{index.only}`" if index.only else ""
        yield f"- `{index.name}` on {_names(index.columns)}{where}"


def _row(column: Column) -> str:
    null = "yes" if column.nullable else ""
    return f"| `{column.name}` | {column.kind.meaning} | {null} | {column.doc} |"


def _names(names: tuple[str, ...]) -> str:
    return ", ".join(f"`{name}`" for name in names)
