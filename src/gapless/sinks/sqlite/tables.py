"""The tables of a SQLite sink: reading and writing rows and records in a transaction.

The first batch that contains a table creates it. Its foreign key refers to the nearest parent that
exists or is in the same batch. Foreign keys are checked at the end of a transaction, because a
block's rows are replaced table by table.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import apsw
import pyarrow as pa

from gapless.core.heights import HIGHEST
from gapless.core.ranges import Span
from gapless.schema import Schema, Table
from gapless.schema.sqlite import create_indexes, create_table, create_view
from gapless.sinks import feed, requests
from gapless.sinks.records import RangeRecords, Retracted
from gapless.sinks.sink import COUNTS, Request, Stored
from gapless.sinks.sqlite import file
from gapless.sinks.sqlite.ranges import Ranges
from gapless.sinks.sqlite.rows import columns_with_values, to_arrow, to_tuples

_OF_SPAN = "WHERE chain_id = ? AND block_number BETWEEN ? AND ?"
_REQUESTS = f"SELECT {requests.COLUMNS} FROM {requests.TABLE} WHERE chain_id = ?"  # noqa: S608
_FORGET = f"DELETE FROM {requests.TABLE} WHERE chain_id = ?"  # noqa: S608 - our own names
_REQUEST = f"INSERT INTO {requests.TABLE} VALUES (?, ?, ?, ?, ?, ?)"  # noqa: S608
_REQUESTED = f"SELECT DISTINCT chain_id FROM {requests.TABLE}"  # noqa: S608


class SqliteTables:
    """Reads and writes rows and records on the connection of the sink."""

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
    ) -> bool:
        self._ranges.replace(chain_id, known, stored, retracted)
        ((readers,),) = await self.execute(feed.IS_READ, chain_id)
        return bool(readers)

    async def execute(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        query = statement.format_map(feed.PLACES).replace("$", "?")
        return self._connection.execute(query, values).fetchall()

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
        marks = ", ".join("?" for _ in columns)
        insert = f"INSERT INTO {table.name} ({names}) VALUES ({marks})"  # noqa: S608 - ours
        self._connection.executemany(insert, to_tuples(columns, rows))

    async def read(
        self, table: Table, chain_id: int, span: Span, columns: Collection[str] | None = None
    ) -> pa.Table:
        names = [it.name for it in table if columns is None or it.name in columns]
        existing = file.columns(self._connection, table)
        if not existing:
            return to_arrow(table, names, [])
        # A reader does not upgrade a table of an older version: missing columns are null.
        wanted = ", ".join(f'"{name}"' if name in existing else "NULL" for name in names)
        order = ", ".join(table.key)
        select = f"SELECT {wanted} FROM {table.name} {_OF_SPAN} ORDER BY {order}"  # noqa: S608
        rows = self._connection.execute(select, (chain_id, *_countable(span))).fetchall()
        return to_arrow(table, names, rows)

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
        """Build the indexes."""
        for each in self.schema.tables:
            if each.name in file.names(self._connection):
                for statement in create_indexes(each):
                    self._connection.execute(statement)


def _countable(span: Span) -> Span:
    return Span(max(span.first, 0), min(span.last, HIGHEST))
