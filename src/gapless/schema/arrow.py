"""The tables in Arrow, as they pass from a source to a sink.

Arrow's default allocator returns memory to the kernel after each batch, and zeroing the pages of
the next batch is a large part of the time of fetching large blocks. So importing this module makes
Arrow use the system allocator, unless the environment selects one.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache

import pyarrow as pa

from gapless.schema.table import Kind, Table

if "ARROW_DEFAULT_MEMORY_POOL" not in os.environ:
    pa.set_memory_pool(pa.system_memory_pool())

_VARIABLE = {
    Kind.INT: pa.uint64(),
    Kind.BYTES: pa.binary(),
    Kind.FLOAT: pa.float64(),
    Kind.BOOL: pa.bool_(),
    Kind.TEXT: pa.string(),
    Kind.JSON: pa.string(),
}
_TYPES = {kind: pa.binary(kind.width) if kind.width else _VARIABLE[kind] for kind in Kind}


def arrow_type(kind: Kind) -> pa.DataType:
    return _TYPES[kind]


@cache
def arrow_schema(table: Table) -> pa.Schema:
    return pa.schema(pa.field(it.name, _TYPES[it.kind], it.nullable) for it in table)


def one_array(column: pa.ChunkedArray) -> pa.Array:
    """Returns a column as one array; copies it only if it has several chunks."""
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


@dataclass(frozen=True)
class Tables(Mapping[str, pa.Table]):
    """Rows of some blocks, by table. A table that was not requested is absent, not empty."""

    by_name: Mapping[str, pa.Table]

    def __getitem__(self, name: str) -> pa.Table:
        return self.by_name[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.by_name)

    def __len__(self) -> int:
        return len(self.by_name)
