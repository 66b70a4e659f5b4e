"""The tables in Arrow: what travels from a source to a sink.

Arrow's own allocator gives memory back after each batch, and the kernel zeroes the pages of the
next one, which takes a good part of the time of fetching large blocks. So what is imported here has
Arrow use the system's, unless the environment names one.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa

from gapless.schema.tables import TABLES, Kind, Table

if "ARROW_DEFAULT_MEMORY_POOL" not in os.environ:
    pa.set_memory_pool(pa.system_memory_pool())

_VARIABLE = {
    Kind.INT: pa.uint64(),
    Kind.BYTES: pa.binary(),
    Kind.FLOAT: pa.float64(),
    Kind.BOOL: pa.bool_(),
    Kind.JSON: pa.string(),
}
_TYPES = {kind: pa.binary(kind.width) if kind.width else _VARIABLE[kind] for kind in Kind}
_SCHEMAS = {
    table.name: pa.schema(pa.field(each.name, _TYPES[each.kind], each.nullable) for each in table)
    for table in TABLES
}


def arrow_type(kind: Kind) -> pa.DataType:
    return _TYPES[kind]


def arrow_schema(table: Table) -> pa.Schema:
    return _SCHEMAS[table.name]


@dataclass(frozen=True)
class Tables(Mapping[str, pa.Table]):
    """Rows of some blocks, by table, parents first. A table not asked for is absent, not empty."""

    by_name: Mapping[str, pa.Table]

    def __getitem__(self, name: str) -> pa.Table:
        return self.by_name[name]

    def __iter__(self) -> Iterator[str]:
        return (table.name for table in TABLES if table.name in self.by_name)

    def __len__(self) -> int:
        return len(self.by_name)
