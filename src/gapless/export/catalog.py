"""Which tables can be exported, and in which schemas.

Every stored table can be exported with its own columns, in the schema `native`. Chain families add
tables that are derived from stored ones, and the column layouts of other tools.
"""

from __future__ import annotations

from collections.abc import Mapping

from gapless.chains import families
from gapless.core.errors import UsageError
from gapless.schema.layout import Layout, LayoutSet, native_fields

NATIVE = "native"


def layout_sets() -> Mapping[str, LayoutSet]:
    """Return the layouts of every family, by schema."""
    found = {NATIVE: LayoutSet({})}
    for family in families():
        own = {each.name: Layout(each, native_fields(each.columns), {}) for each in family.tables}
        found[NATIVE] |= LayoutSet(own)
        for schema, layouts in family.layouts.items():
            found[schema] = found.get(schema, LayoutSet({})) | layouts
    return found


def find_layout(schema: str, table: str) -> Layout:
    """Return the layout of a table in a schema; raise `UsageError` if the schema lacks it."""
    layouts = layout_sets()[schema]
    found = layouts.tables.get(table)
    if found is None:
        others = [name for name, each in layout_sets().items() if table in each.tables]
        hint = layouts.elsewhere.get(table) or f"use the schema `{'`, `'.join(others)}`"
        raise UsageError(f"`{schema}` has no table `{table}`", hint=hint)
    return found
