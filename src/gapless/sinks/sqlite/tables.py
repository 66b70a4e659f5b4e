"""The tables of a SQLite sink: reading and writing rows and records in a transaction.

The first batch that contains a table creates it. Its foreign key refers to the nearest parent that
exists or is in the same batch. Foreign keys are checked at the end of a transaction, because a
block's rows are replaced table by table.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, ParamSpec, TypeVar

import apsw
import pyarrow as pa

from gapless.core.heights import HIGHEST
from gapless.core.ranges import Span
from gapless.schema import Index, Schema, Table
from gapless.schema.ddl import create_index
from gapless.schema.sqlite import create_table, create_view
from gapless.sinks import companion, feed, requests
from gapless.sinks.companion import Key, Observers, insertion
from gapless.sinks.dialect import SQLITE, SqlDialect
from gapless.sinks.records import RangeRecords, Retracted
from gapless.sinks.sink import COUNTS, Request, Stored
from gapless.sinks.sqlite import file, seeking
from gapless.sinks.sqlite.ranges import Ranges
from gapless.sinks.sqlite.rows import columns_with_values, to_arrow, to_tuples

P = ParamSpec("P")
T = TypeVar("T")

_ROWS_AT_ONCE = 8  # per statement, which costs less than 8 statements
_SMALL = 32 << 20  # bytes of a file whose indexes are built in less than a second
_OBSERVERS = f"SELECT ({feed.IS_READ}), ({companion.NAMES})"
_OF_SPAN = "WHERE chain_id = ? AND block_number BETWEEN ? AND ?"
_REQUESTS = f"SELECT {requests.COLUMNS} FROM {requests.TABLE} WHERE chain_id = ?"  # noqa: S608
_FORGET = f"DELETE FROM {requests.TABLE} WHERE chain_id = ?"  # noqa: S608 - our own names
_REQUEST = f"INSERT INTO {requests.TABLE} VALUES (?, ?, ?, ?, ?, ?)"  # noqa: S608
_REQUESTED = f"SELECT DISTINCT chain_id FROM {requests.TABLE}"  # noqa: S608


class SqliteTables:
    """Reads and writes rows and records on the connection of the sink."""

    dialect: SqlDialect = SQLITE

    def __init__(self, connection: apsw.Connection, schema: Schema) -> None:
        self.schema = schema
        self._ranges = Ranges(connection, schema)
        self._connection = connection

    async def known(self, chain_id: int, span: Span, limit: int | None = None) -> RangeRecords:
        return self._ranges.within(chain_id, span, limit)

    async def remember(
        self,
        chain_id: int,
        known: RangeRecords,
        stored: Iterable[Stored],
        retracted: Iterable[Retracted],
    ) -> Observers:
        self._ranges.replace(chain_id, known, stored, retracted)
        ((readers, names),) = await self.execute(_OBSERVERS, chain_id)
        return Observers.of(readers, names)

    async def execute(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        return self._connection.execute(_placed(statement), values).fetchall()

    async def execute_many(self, statement: str, rows: Collection[Sequence[object]]) -> None:
        self._connection.executemany(_placed(statement), rows)

    async def add_rows(
        self, name: str, columns: Sequence[str], rows: Collection[Sequence[object]]
    ) -> None:
        await self.execute_many(insertion(name, columns), rows)

    async def has(self, name: str) -> bool:
        return name in file.names(self._connection)

    async def exclude_companions(self, chain_id: int) -> None:
        """Do nothing: there is only one writer."""

    async def compute(self, function: Callable[P, T], *values: P.args, **named: P.kwargs) -> T:
        """Call the function here, on the thread of the sink."""
        return function(*values, **named)

    async def create(self, names: Collection[str]) -> None:
        existing = file.names(self._connection)
        foreign_keys = bool(self._connection.pragma("foreign_keys"))
        for name in names:
            if name not in existing:
                table, stored = self.schema[name], {*existing, *names}
                statement = create_table(table, foreign_keys=foreign_keys, stored=stored)
                self._connection.execute(statement)
                self._connection.execute(create_view(table))

    async def delete(self, table: Table, chain_id: int, span: Span) -> None:
        if not file.columns(self._connection, table):
            return
        self._connection.execute("PRAGMA defer_foreign_keys = ON")
        delete = f"DELETE FROM {table.name} {_OF_SPAN}"  # noqa: S608 - our own names
        self._connection.execute(delete, (chain_id, *span))

    async def insert(self, table: Table, rows: pa.Table) -> None:
        if not rows.num_rows:
            return
        columns = columns_with_values(table, rows)
        names = ", ".join(f'"{column.name}"' for column in columns)
        marks = f"({', '.join('?' for _ in columns)})"
        insert = f"INSERT INTO {table.name} ({names}) VALUES "  # noqa: S608 - ours
        whole = rows.num_rows - rows.num_rows % _ROWS_AT_ONCE
        several = insert + ", ".join([marks] * _ROWS_AT_ONCE)
        self._connection.executemany(
            several, to_tuples(columns, rows.slice(0, whole), _ROWS_AT_ONCE)
        )
        self._connection.executemany(insert + marks, to_tuples(columns, rows.slice(whole)))

    async def read(
        self, table: Table, chain_id: int, span: Span, columns: Collection[str] | None = None
    ) -> pa.Table:
        names, wanted = self._wanted(table, columns)
        if not wanted:
            return to_arrow(table, names, [])
        order = ", ".join(table.key)
        select = f"SELECT {wanted} FROM {table.name} {_OF_SPAN} ORDER BY {order}"  # noqa: S608
        rows = self._connection.execute(select, (chain_id, *_countable(span))).fetchall()
        return to_arrow(table, names, rows)

    async def find(
        self, table: Table, chain_id: int, span: Span, column: str, values: Collection[bytes]
    ) -> list[Key]:
        if not await self.has(table.name):
            return []
        wanted = [(value, *_countable(span), chain_id) for value in values]
        found = self._connection.executemany(seeking.keys(table, column), wanted)
        keys: list[Any] = found.fetchall()
        return keys

    async def read_rows(
        self,
        table: Table,
        chain_id: int,
        keys: Sequence[Key],
        columns: Collection[str] | None = None,
    ) -> pa.Table:
        names, wanted = self._wanted(table, columns)
        if not wanted:
            return to_arrow(table, names, [])
        select = seeking.rows(table, wanted)
        rows = self._connection.executemany(select, [(chain_id, *key) for key in keys]).fetchall()
        return to_arrow(table, names, rows)

    def _wanted(self, table: Table, columns: Collection[str] | None) -> tuple[list[str], str]:
        """Return names of columns and the list to select; nothing if the table does not exist."""
        names = [it.name for it in table if columns is None or it.name in columns]
        existing = file.columns(self._connection, table)
        # A reader does not upgrade a table of an older version: missing columns are null.
        each = (f'"{name}"' if name in existing else "NULL" for name in names)
        return names, ", ".join(each) if existing else ""

    def counts(self, table: Table, chain_id: int, span: Span) -> pa.Table:
        if table.name not in file.names(self._connection):
            return COUNTS.empty_table()
        select = (
            f"SELECT block_number, count(*) FROM {table.name} {_OF_SPAN} "  # noqa: S608
            "GROUP BY block_number ORDER BY block_number"
        )
        rows = self._connection.execute(select, (chain_id, *_countable(span))).fetchall()
        columns = zip(*rows, strict=True) if rows else ((), ())
        return pa.table([pa.array(values, pa.uint64()) for values in columns], COUNTS)

    async def requests(self, chain_id: int) -> list[Request]:
        if requests.TABLE not in file.names(self._connection):  # a sink of an older version
            return []
        found = self._connection.execute(_REQUESTS, (chain_id,))
        return requests.merged(map(requests.from_row, found))

    async def replace_requests(self, chain_id: int, wanted: Iterable[Request]) -> None:
        self._connection.execute(_FORGET, (chain_id,))
        rows = [(chain_id, *requests.to_row(each)) for each in wanted]
        self._connection.executemany(_REQUEST, rows)

    def chains(self) -> list[int]:
        found = self._ranges.chains()
        if requests.TABLE in file.names(self._connection):
            found |= {chain_id for (chain_id,) in self._connection.execute(_REQUESTED)}
        return sorted(found)

    def highest_fence(self) -> int:
        return self._ranges.highest_fence()

    def finish(self) -> None:
        """Build the indexes.

        Those of a large file are committed one by one, so that others can write in between. For a
        small one, the commits would take longer than the indexes.
        """
        missing = self.missing_indexes({it.name: it.indexes for it in self.schema.tables})
        size = self._connection.pragma("page_count") * self._connection.pragma("page_size")
        if not missing or size > _SMALL:
            for statement in missing:
                self._connection.execute(statement)
            return
        with file.transaction(self._connection):
            for statement in missing:
                self._connection.execute(statement)

    def missing_indexes(self, indexes: Mapping[str, Collection[Index]]) -> list[str]:
        """Return the statements that build those indexes of existing tables that are missing."""
        found = self._connection.execute("SELECT name FROM sqlite_schema")
        existing = {name for (name,) in found}
        return [
            create_index(index, table)
            for table, wanted in indexes.items()
            if table in existing
            for index in wanted
            if index.name not in existing
        ]


def _placed(statement: str) -> str:
    return statement.format_map(_PLACES).replace("$", "?")


class _Places(dict[str, str]):
    """Every table by its own name: a file has no schemas."""

    def __missing__(self, name: str) -> str:
        return name


_PLACES = _Places()


def _countable(span: Span) -> Span:
    return Span(max(span.first, 0), min(span.last, HIGHEST))
