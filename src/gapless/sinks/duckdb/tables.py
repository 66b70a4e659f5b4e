"""The tables of a DuckDB sink: reading and writing rows and records in a transaction.

Rows are passed as Arrow, never as Python objects. There are few records, so they need no index.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from gapless.core.ranges import Span
from gapless.schema import Schema, Table
from gapless.schema.arrow import arrow_schema
from gapless.sinks import feed, requests
from gapless.sinks.companion import Observers
from gapless.sinks.range_rows import COLUMNS, changes, records_from
from gapless.sinks.records import RangeRecords, Retracted
from gapless.sinks.sink import COUNTS, Request, Stored

if TYPE_CHECKING:
    import duckdb

_OF_SPAN = "WHERE chain_id = ? AND block_number BETWEEN ? AND ?"
_WITHIN = f"""
SELECT {COLUMNS} FROM _gapless_ranges WHERE chain_id = ? AND last >= ? AND first <= ?
"""  # noqa: S608 - our own names
_HIGHEST = "QUALIFY row_number() OVER (PARTITION BY dataset ORDER BY first DESC) <= ?"
_DELETE = "DELETE FROM _gapless_ranges WHERE chain_id = ? AND (dataset, first) IN"
_INSERT = "INSERT INTO _gapless_ranges VALUES"
_CHAINS = "SELECT DISTINCT chain_id FROM _gapless_ranges WHERE kind <> 'retracted'"
_REQUESTS = f"SELECT {requests.COLUMNS} FROM {requests.TABLE} WHERE chain_id = ?"  # noqa: S608
_FORGET = f"DELETE FROM {requests.TABLE} WHERE chain_id = ?"  # noqa: S608 - our own names
_REQUEST = f"INSERT INTO {requests.TABLE} VALUES"
_REQUESTED = f"SELECT DISTINCT chain_id FROM {requests.TABLE}"  # noqa: S608
_HAS = f"SELECT count(*) FROM duckdb_tables() WHERE table_name = '{requests.TABLE}'"  # noqa: S608
_ROWS = "_gapless_rows"


class DuckdbTables:
    """Reads and writes rows and records on the connection of the sink.

    `existing` holds the columns that each table had when the file was opened: a reader does not
    upgrade a file of an older version.
    """

    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection,
        schema: Schema,
        existing: Mapping[str, Collection[str]],
    ) -> None:
        self.schema = schema
        self._connection = connection
        self._existing = existing

    async def known(self, chain_id: int, span: Span, limit: int | None = None) -> RangeRecords:
        query, values = _WITHIN, [chain_id, *span]
        if limit is not None:
            query, values = f"{query} {_HIGHEST}", [*values, limit]
        return records_from(self._connection.execute(query, values).fetchall())

    async def remember(
        self,
        chain_id: int,
        known: RangeRecords,
        stored: Iterable[Stored],
        retracted: Iterable[Retracted],
    ) -> Observers:
        removed, added = changes(known, stored, retracted)
        if removed:
            self._connection.execute(f"{_DELETE} ({_marks(removed)})", [chain_id, *chain(*removed)])
        if added:
            rows = [(chain_id, *each) for each in added]
            self._connection.execute(f"{_INSERT} {_marks(rows)}", [*chain(*rows)])
        ((readers,),) = await self.execute(feed.IS_READ, chain_id)
        return Observers(bool(readers))

    async def execute(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        query = statement.format_map(feed.PLACES)
        return self._connection.execute(query, [*values]).fetchall()

    async def create(self, names: Collection[str]) -> None:
        """Do nothing: all tables exist from the start, because they have no foreign keys."""

    async def insert(self, table: Table, rows: pa.Table) -> None:
        if not rows.num_rows:
            return
        self._connection.register(_ROWS, rows)
        try:
            insert = f"INSERT INTO {table.name} BY NAME FROM {_ROWS}"
            self._connection.execute(insert)
        finally:
            self._connection.unregister(_ROWS)

    async def delete(self, table: Table, chain_id: int, span: Span) -> None:
        delete = f"DELETE FROM {table.name} {_OF_SPAN}"  # noqa: S608 - our own names
        self._connection.execute(delete, [chain_id, *span])

    async def read(
        self, table: Table, chain_id: int, span: Span, columns: Collection[str] | None = None
    ) -> pa.Table:
        names = [it.name for it in table if columns is None or it.name in columns]
        if not (existing := self._existing.get(table.name)):
            return arrow_schema(table).empty_table().select(names)
        wanted = ", ".join(f'"{it}"' if it in existing else f'NULL AS "{it}"' for it in names)
        order = ", ".join(table.key)
        select = f"SELECT {wanted} FROM {table.name} {_OF_SPAN} ORDER BY {order}"  # noqa: S608
        schema = pa.schema([arrow_schema(table).field(name) for name in names])
        return self._rows(select, [chain_id, *span]).cast(schema)

    def counts(self, table: Table, chain_id: int, span: Span) -> pa.Table:
        if not self._existing.get(table.name):
            return COUNTS.empty_table()
        select = (
            f"SELECT block_number, count(*)::UBIGINT AS rows FROM {table.name} "  # noqa: S608
            f"{_OF_SPAN} GROUP BY block_number ORDER BY block_number"
        )
        return self._rows(select, [chain_id, *span]).cast(COUNTS)

    async def requests(self, chain_id: int) -> list[Request]:
        if not self._has_requests():
            return []
        found = self._connection.execute(_REQUESTS, [chain_id]).fetchall()
        return requests.merged(map(requests.from_row, found))

    async def replace_requests(self, chain_id: int, wanted: Iterable[Request]) -> None:
        self._connection.execute(_FORGET, [chain_id])
        if rows := [(chain_id, *requests.to_row(each)) for each in wanted]:
            self._connection.execute(f"{_REQUEST} {_marks(rows)}", [*chain(*rows)])

    def chains(self) -> list[int]:
        found = self._connection.execute(_CHAINS).fetchall()
        if self._has_requests():
            found += self._connection.execute(_REQUESTED).fetchall()
        return sorted({chain_id for (chain_id,) in found})

    def highest_fence(self) -> int:
        found = self._connection.execute("SELECT coalesce(max(fence), 0) FROM _gapless_ranges")
        ((highest,),) = found.fetchall()
        return int(highest)

    def finish(self) -> None:
        """Move all rows from the log into the file, where reading is fastest."""
        self._connection.execute("CHECKPOINT")

    def _has_requests(self) -> bool:
        """Whether the table of requests exists; writers add it to sinks of an older version."""
        ((found,),) = self._connection.execute(_HAS).fetchall()
        return bool(found)

    def _rows(self, query: str, parameters: list[Any]) -> pa.Table:
        return self._connection.sql(query, params=parameters).to_arrow_table().combine_chunks()


def _marks(rows: Sequence[tuple[Any, ...]]) -> str:
    """Return placeholders for all rows at once, because every statement is expensive."""
    return ", ".join(f"({', '.join('?' for _ in row)})" for row in rows)
