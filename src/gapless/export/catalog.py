"""Which tables can be exported, and in which schemas."""

from __future__ import annotations

from collections.abc import Mapping

from gapless.core.errors import UsageError
from gapless.export.etl import ETL, VERSION
from gapless.export.layout import Layout
from gapless.export.native import NATIVE

LAYOUTS: Mapping[str, Mapping[str, Layout]] = {"native": NATIVE, "ethereum-etl": ETL}
VERSIONS: Mapping[str, str | None] = {"native": None, "ethereum-etl": VERSION}
"""The release of the tool whose columns a schema copies; None for our own columns."""


def find_layout(schema: str, table: str) -> Layout:
    """The layout of a table in a schema that has it."""
    found = LAYOUTS[schema].get(table)
    if found is None:
        raise UsageError(f"`{schema}` has no table `{table}`", hint=_WHERE[table])
    return found


_WHERE = {
    "receipts": "in `native` they are columns of `transactions`",
    "withdrawals": "in `ethereum-etl` they are a column of `blocks`",
}
