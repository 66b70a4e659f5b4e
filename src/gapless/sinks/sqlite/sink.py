"""SQLite as a sink: rows and records of a batch change in one immediate transaction.

Several processes may write to one file. Whoever has begun an immediate transaction is alone until
its end, so a fence that was found low enough still is when the rows are written.

A table appears with the first batch that brings it. Its foreign key leads to the nearest parent
that is there or comes along; such keys are checked at the end of a transaction, since a block's
rows are replaced table by table.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import ParamSpec, Self, TypeVar

import apsw
import pyarrow as pa

from gapless.core.ranges import RangeSet, Span
from gapless.schema import BLOCKS, TABLES, Table, table
from gapless.schema.digest import MODULUS, digest
from gapless.schema.sqlite import create_indexes, create_table, create_view
from gapless.sinks import records
from gapless.sinks.admission import admit
from gapless.sinks.revision import COMPARED, revised
from gapless.sinks.sink import HIGHEST, Batch, Stored
from gapless.sinks.sqlite import file
from gapless.sinks.sqlite.ranges import Ranges
from gapless.sinks.sqlite.rows import filled, to_arrow, to_tuples
from gapless.sinks.thread import OwnThread

P = ParamSpec("P")
T = TypeVar("T")

_BLOCKS_AT_ONCE = 500  # when a range is measured anew
_OF_SPAN = "WHERE chain_id = ? AND block_number BETWEEN ? AND ?"
_COUNTS = pa.schema([("block_number", pa.uint64()), ("rows", pa.uint64())])


class SqliteSink:
    """A sink in a file. Open it with `open`."""

    batch_blocks: int | None = None
    grid: int | None = None

    def __init__(self, path: Path, thread: OwnThread, connection: apsw.Connection) -> None:
        self.id = file.identity(connection)
        self._path, self._thread, self._connection = path, thread, connection
        self._ranges = Ranges(connection)

    @classmethod
    async def open(cls, path: Path, *, create: bool = True, foreign_keys: bool = True) -> Self:
        thread = OwnThread("gapless-sqlite-sink")
        connect = partial(file.connect, path, create=create, foreign_keys=foreign_keys)
        try:
            return await thread.run(lambda: cls(path, thread, connect()))
        except BaseException:
            thread.end()
            raise

    async def write(self, batch: Batch, fence: int) -> None:
        await self._run(self._write, batch, fence)

    async def retract(self, chain_id: int, span: Span, fence: int) -> None:
        await self._run(self._retract, chain_id, span, fence)

    async def stored(self, chain_id: int, span: Span | None = None) -> list[Stored]:
        return await self._run(self._stored, chain_id, span)

    async def chains(self) -> list[int]:
        return await self._run(self._ranges.chains)

    async def read(
        self, table: Table, chain_id: int, span: Span, columns: Collection[str] | None = None
    ) -> pa.Table:
        return await self._run(self._read, table, chain_id, span, columns)

    async def counts(self, table: Table, chain_id: int, span: Span) -> pa.Table:
        return await self._run(self._counts, table, chain_id, span)

    async def highest_fence(self) -> int:
        return await self._run(self._ranges.highest_fence)

    async def finish(self) -> None:
        await self._run(self._index)

    async def close(self) -> None:
        await self._run(self._connection.close)
        self._thread.end()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    async def _run(self, function: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
        with file.in_our_words(self._path):
            return await self._thread.run(function, *arguments, **named)

    # From here on: on the thread.

    def _write(self, batch: Batch, fence: int) -> None:
        admit(batch)
        chain_id, span = batch.chain_id, batch.span
        with file.transaction(self._connection):
            known = self._ranges.around(chain_id, span)
            records.refuse_older(known, span, fence, batch.tables)
            records.refuse_broken(
                batch,
                self._hash(chain_id, span.first - 1, "hash"),
                self._hash(chain_id, span.last + 1, "parent_hash"),
            )
            revision = revised(batch, self._read(BLOCKS, chain_id, span, COMPARED))
            self._create(batch.tables)
            self._delete(chain_id, revision.dropped)
            written = []
            for name in batch.tables:
                rows = revision.rows(batch, name)
                self._insert(table(name), rows)
                written.append(records.written(batch, name, rows, fence))
            kept = records.kept(known.stored, revision.dropped, partial(self._cut, chain_id))
            retracted = records.retractions(known, span, None)
            self._ranges.replace(chain_id, known, records.merged([*kept, *written]), retracted)

    def _retract(self, chain_id: int, span: Span, fence: int) -> None:
        with file.transaction(self._connection):
            known = self._ranges.around(chain_id, span)
            records.refuse_older(known, span, fence, [BLOCKS.name])
            dropped = {each.name: RangeSet.of(span) for each in TABLES}
            self._delete(chain_id, dropped)
            kept = records.kept(known.stored, dropped, partial(self._cut, chain_id))
            retracted = records.retractions(known, span, fence)
            self._ranges.replace(chain_id, known, records.merged(kept), retracted)

    def _create(self, wanted: Collection[str]) -> None:
        there = file.names(self._connection)
        foreign_keys = bool(self._connection.pragma("foreign_keys"))
        for name in wanted:
            if name not in there:
                statement = create_table(
                    table(name), foreign_keys=foreign_keys, stored={*there, *wanted}
                )
                self._connection.execute(statement)
                self._connection.execute(create_view(table(name)))

    def _delete(self, chain_id: int, dropped: records.Dropped) -> None:
        self._connection.execute("PRAGMA defer_foreign_keys = ON")
        there = file.names(self._connection)
        for each in reversed(TABLES):
            if each.name in there:
                for span in dropped[each.name].spans:
                    delete = f"DELETE FROM {each.name} {_OF_SPAN}"  # noqa: S608 - our own names
                    self._connection.execute(delete, (chain_id, *span))

    def _insert(self, table: Table, rows: pa.Table) -> None:
        if not rows.num_rows:
            return
        columns = filled(table, rows)
        names = ", ".join(f'"{column.name}"' for column in columns)
        marks = ", ".join("?" for _ in columns)
        insert = f"INSERT INTO {table.name} ({names}) VALUES ({marks})"  # noqa: S608 - ours
        self._connection.executemany(insert, to_tuples(columns, rows))

    def _stored(self, chain_id: int, span: Span | None) -> list[Stored]:
        with file.transaction(self._connection, "BEGIN"):
            found = self._ranges.within(chain_id, span).stored
            if span is not None:
                outside = RangeSet.of((0, HIGHEST)) - RangeSet.of(span)
                dropped = {each.name: outside for each in TABLES}
                return records.merged(records.kept(found, dropped, partial(self._cut, chain_id)))
            return records.merged(found)

    def _cut(self, chain_id: int, record: Stored, span: Span) -> Stored:
        """The record of a part of what it was for, measured by the rows that are there."""
        count = total = 0
        for first in range(span.first, span.last + 1, _BLOCKS_AT_ONCE):
            window = Span(first, min(first + _BLOCKS_AT_ONCE - 1, span.last))
            rows = self._read(table(record.dataset), chain_id, window)
            count, total = count + rows.num_rows, total + digest(table(record.dataset), rows)
        return replace(
            record,
            span=span,
            rows=count,
            digest=total % MODULUS,
            parent_hash=self._hash(chain_id, span.first, "parent_hash") or b"",
            last_hash=self._hash(chain_id, span.last, "hash") or b"",
        )

    def _hash(self, chain_id: int, height: int, column: str) -> bytes | None:
        found = self._read(BLOCKS, chain_id, Span(height, height), [column])
        return found[column][0].as_py() if found.num_rows else None

    def _read(
        self, table: Table, chain_id: int, span: Span, columns: Collection[str] | None = None
    ) -> pa.Table:
        names = [it.name for it in table if columns is None or it.name in columns]
        if table.name not in file.names(self._connection):
            return to_arrow(table, names, [])
        wanted = ", ".join(f'"{name}"' for name in names)
        order = ", ".join(table.key)
        select = f"SELECT {wanted} FROM {table.name} {_OF_SPAN} ORDER BY {order}"  # noqa: S608
        rows = self._connection.execute(select, (chain_id, *_countable(span))).fetchall()
        return to_arrow(table, names, rows)

    def _counts(self, table: Table, chain_id: int, span: Span) -> pa.Table:
        if table.name not in file.names(self._connection):
            return _COUNTS.empty_table()
        select = (
            f"SELECT block_number, count(*) FROM {table.name} {_OF_SPAN} "  # noqa: S608
            "GROUP BY block_number ORDER BY block_number"
        )
        rows = self._connection.execute(select, (chain_id, *_countable(span))).fetchall()
        columns = zip(*rows, strict=True) if rows else ((), ())
        return pa.table([pa.array(values, pa.uint64()) for values in columns], _COUNTS)

    def _index(self) -> None:
        for each in TABLES:
            if each.name in file.names(self._connection):
                for statement in create_indexes(each):
                    self._connection.execute(statement)


def _countable(span: Span) -> Span:
    return Span(max(span.first, 0), min(span.last, HIGHEST))
