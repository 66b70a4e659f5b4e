"""A sink in a database file that a library reads and writes in this process, on one thread."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

import pyarrow as pa

from gapless.core.coroutines import run_sync
from gapless.core.ranges import RangeSet, Span
from gapless.schema import Table
from gapless.schema.digest import digest
from gapless.sinks import feed, sql
from gapless.sinks.admission import admit
from gapless.sinks.changes import Change, ChangeReader
from gapless.sinks.sink import Access, Batch, Request, Stored
from gapless.sinks.threaded import ThreadedSink
from gapless.system import System
from gapless.threads import SerialThread

_MANY = 1_000  # rows whose digests take longer than handing them to another thread


class FileTables(sql.SinkTransaction, Protocol):
    """The operations on the tables of a file, inside or outside a transaction."""

    def counts(self, table: Table, chain_id: int, span: Span) -> pa.Table: ...

    def chains(self) -> list[int]: ...

    def highest_fence(self) -> int: ...

    def finish(self) -> None: ...


class DatabaseFileSink(ThreadedSink):
    """Implements the contract with the tables and transactions of a database file."""

    def __init__(
        self,
        id_: str,
        thread: SerialThread,
        path: Path,
        access: Access,
        tables: FileTables,
        system: System,
    ) -> None:
        super().__init__(id_, thread, path, access)
        self._tables = tables
        self._digester = system.executor(1, "gapless-digests")

    @abstractmethod
    def _write_transaction(self) -> AbstractContextManager[None]:
        """Begin an exclusive transaction: what it reads is still true when it commits."""

    @abstractmethod
    def _read_transaction(self) -> AbstractContextManager[None]:
        """Begin a transaction that reads a consistent snapshot of the file."""

    def _write(self, batch: Batch, fence: int) -> None:
        admit(batch, self._tables.schema)
        with self._write_transaction():
            run_sync(sql.write(self._tables, batch, fence, self._digests(batch)))

    def _digests(self, batch: Batch) -> sql.DigestOf:
        """Return the function that returns the digests of inserted rows.

        Those of many rows are computed while they are inserted, which releases Python's lock.
        """
        if sum(rows.num_rows for rows in batch.tables.values()) < _MANY:
            return digest
        ready = {
            name: self._digester.submit(digest, self._tables.schema[name], rows)
            for name, rows in batch.tables.items()
        }

        def digest_of(table: Table, rows: pa.Table) -> int:
            if table is table.anchor and not rows.equals(batch.tables[table.name]):
                return digest(table, rows)  # changed to match stored blocks
            return ready[table.name].result()

        return digest_of

    def _retract(self, chain_id: int, span: Span, fence: int) -> None:
        with self._write_transaction():
            run_sync(sql.retract(self._tables, chain_id, span, fence))

    def _stored(self, chain_id: int, span: Span | None) -> list[Stored]:
        with self._read_transaction():
            return run_sync(sql.stored(self._tables, chain_id, span))

    def _records(self, chain_id: int, span: Span) -> list[Stored]:
        with self._read_transaction():
            return run_sync(sql.whole_records(self._tables, chain_id, span))

    def _endorse(
        self,
        chain_id: int,
        seen: Sequence[Stored],
        proven: frozenset[str],
        unproven: frozenset[str],
        fence: int,
    ) -> None:
        with self._write_transaction():
            run_sync(sql.endorse(self._tables, chain_id, seen, proven, unproven, fence))

    def _fold(self, chain_id: int, below: int, keep: RangeSet, limit: int) -> int:
        with self._write_transaction():
            return run_sync(sql.fold(self._tables, chain_id, Span(0, below - 1), keep, limit))

    def _expire(self, chain_id: int, below: int, limit: int) -> int:
        with self._write_transaction():
            return run_sync(sql.expire(self._tables, chain_id, below, limit))

    def _changes(self, chain_id: int, after: int, limit: int) -> list[Change]:
        with self._read_transaction():
            return run_sync(feed.changes(self._tables, chain_id, after, limit))

    def _add_change_reader(self, chain_id: int, name: str) -> int:
        with self._write_transaction():
            return run_sync(feed.add_reader(self._tables, chain_id, name))

    def _remove_change_reader(self, chain_id: int, name: str) -> None:
        with self._write_transaction():
            run_sync(feed.remove_reader(self._tables, chain_id, name))

    def _change_readers(self, chain_id: int) -> dict[str, ChangeReader]:
        return run_sync(feed.readers(self._tables, chain_id))

    def _acknowledge_changes(self, chain_id: int, name: str, through: int) -> None:
        with self._write_transaction():
            run_sync(feed.acknowledge(self._tables, chain_id, name, through))

    def _chains(self) -> list[int]:
        return self._tables.chains()

    def _request(self, chain_id: int, wanted: Request) -> None:
        with self._write_transaction():
            run_sync(sql.request(self._tables, chain_id, wanted))

    def _requests(self, chain_id: int) -> list[Request]:
        return run_sync(self._tables.requests(chain_id))

    def _withdraw(self, chain_id: int, span: Span) -> None:
        with self._write_transaction():
            run_sync(sql.withdraw(self._tables, chain_id, span))

    def _read(
        self, table: Table, chain_id: int, span: Span, columns: Collection[str] | None
    ) -> pa.Table:
        with sql.report_damage(table, span):
            return run_sync(self._tables.read(table, chain_id, span, columns))

    def _counts(self, table: Table, chain_id: int, span: Span) -> pa.Table:
        return self._tables.counts(table, chain_id, span)

    def _highest_fence(self) -> int:
        return self._tables.highest_fence()

    def _finish(self) -> None:
        self._tables.finish()

    def _close(self) -> None:
        self._digester.shutdown()
