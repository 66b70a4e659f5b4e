"""The tables in PostgreSQL: DDL, partitions, indexes, and the views that people read.

A 256-bit number is `numeric(78,0)`, which is exact and supports arithmetic, so it has no rounded
column. JSON is `json`, which keeps the original text. Integers are limited to 2^63; a larger one is
stored as its two's complement, as in SQLite.

Foreign keys are checked immediately, row by row: parents are inserted first, and children are
deleted first. They can be deferred, for a write that replaces blocks whose other rows stay.

Large tables can be partitioned by height. A partition is created as a separate table and then
attached, which does not block readers or writers of the others.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from gapless.schema.ddl import definition, listed, nearest_parent, quoted
from gapless.schema.table import Column, Kind, Table

_TYPES = {
    Kind.INT: "bigint",
    Kind.U256: "numeric(78,0)",
    Kind.BOOL: "boolean",
    Kind.TEXT: "text",
    Kind.JSON: "json",
}


@dataclass(frozen=True)
class Partition:
    """The rows of a table from height `first` up to, but not including, `end`."""

    table: Table
    first: int
    end: int

    @property
    def name(self) -> str:
        return f"{self.table.name}_{self.first}"


@dataclass(frozen=True)
class PostgresDdl:
    """DDL for the tables of one PostgreSQL schema."""

    schema: str
    foreign_keys: bool = True
    partition: int | None = None  # number of heights per partition

    def place(self, name: str) -> str:
        return f"{quoted(self.schema)}.{quoted(name)}"

    def create_table(self, table: Table, stored: Collection[str] | None = None) -> str:
        """Returns `CREATE TABLE`; a foreign key refers to the nearest stored parent."""
        lines = [_definition(column) for column in table.columns]
        lines.append(f"PRIMARY KEY ({listed(table.key)})")
        if self.foreign_keys:
            lines.extend(self._reference(table, stored))
        body = ",\n  ".join(lines)
        by = " PARTITION BY RANGE (block_number)" if self.is_partitioned(table) else ""
        return f"CREATE TABLE {self.place(table.name)} (\n  {body}\n){by}"

    def is_partitioned(self, table: Table) -> bool:
        return self.partition is not None and table.is_large

    def partitions(self, table: Table, first: int, last: int) -> list[Partition]:
        """Returns the partitions that hold the rows of a range of heights."""
        if self.partition is None or not self.is_partitioned(table):
            return []
        size = self.partition
        starts = range(first - first % size, last + 1, size)
        return [Partition(table, start, start + size) for start in starts]

    def create_partition(self, partition: Partition) -> tuple[str, ...]:
        whole, part = self.place(partition.table.name), self.place(partition.name)
        bounds = f"FOR VALUES FROM ({partition.first}) TO ({partition.end})"
        return (
            f"CREATE TABLE {part} (LIKE {whole} INCLUDING DEFAULTS INCLUDING CONSTRAINTS)",
            f"ALTER TABLE {whole} ATTACH PARTITION {part} {bounds}",
        )

    def add_column(self, table: Table, column: Column) -> str:
        return f"ALTER TABLE {self.place(table.name)} ADD COLUMN {_definition(column)}"

    def create_view(self, table: Table) -> str:
        """`CREATE VIEW` of `<table>_hex`: bytes as hex, the time also as a time."""
        body = ",\n  ".join(each for column in table.columns for each in _readable(column))
        view = self.place(f"{table.name}_hex")
        return f"CREATE VIEW {view} AS SELECT\n  {body}\nFROM {self.place(table.name)}"

    def drop_view(self, table: Table) -> str:
        return f"DROP VIEW IF EXISTS {self.place(f'{table.name}_hex')}"

    def _reference(self, child: Table, stored: Collection[str] | None) -> Iterator[str]:
        parent = nearest_parent(child, stored)
        if parent is not None:
            key = listed(parent.key)
            place = self.place(parent.name)
            yield f"FOREIGN KEY ({key}) REFERENCES {place} ({key}) DEFERRABLE"


def _definition(column: Column) -> str:
    return definition(column, _TYPES, "bytea")


def _readable(column: Column) -> Iterator[str]:
    name = quoted(column.name)
    if column.kind in _TYPES:
        yield name
    else:
        digits = f"encode({name}, 'hex')"
        if column.kind is Kind.WORD:
            digits = f"coalesce(nullif(ltrim({digits}, '0'), ''), '0')"
            yield f"CASE WHEN {name} IS NOT NULL THEN '0x' || {digits} END AS {name}"
        else:
            yield f"'0x' || {digits} AS {name}"
    if column.name == "block_timestamp":
        yield f"to_timestamp({name}) AT TIME ZONE 'UTC' AS block_time"
