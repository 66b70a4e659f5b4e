"""Ledger and sink as they are on disk, read independently of the processes."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import apsw

from gapless.core.coroutines import run_sync
from gapless.core.selector import Selection
from gapless.ledger import views
from gapless.ledger.sqlite.database import SqliteTransaction
from gapless.sinks.parquet.manifest import decoded
from tests.simulation.loop import PROCESS

_CHUNKS = """
SELECT selection, first, last, status, fence, due, last_processed, holes
FROM chunks JOIN backfills ON backfills.id = chunks.backfill_id WHERE job = 'blocks'
"""
_RANGES = "SELECT dataset, first, last, fence, kind FROM _gapless_ranges ORDER BY dataset, first"


class ChunkSeen(NamedTuple):
    """What the ledger says about a chunk; positions are those of the selection."""

    selection: str
    first: int
    last: int
    status: str
    fence: int | None
    due: float | None
    last_processed: int | None
    holes: str | None


class RangeSeen(NamedTuple):
    """What a sink has recorded about a range."""

    dataset: str
    first: int
    last: int
    fence: int
    kind: str


COMMITS: Counter[str] = Counter()
"""The transactions that wrote to each SQLite file, whether or not they changed anything."""


def count_commits(connection: apsw.Connection) -> None:
    """Counts the transactions of a new SQLite connection, which costs less than to ask for them."""
    path = connection.filename

    def count() -> bool:
        COMMITS[path] += 1
        return False  # it may commit

    connection.set_commit_hook(count)


class SeenFile:
    """A SQLite file that may not exist yet."""

    def __init__(self, path: Path, table: str) -> None:
        self._path, self._table = path, table
        self._connection: apsw.Connection | None = None

    @property
    def connection(self) -> apsw.Connection | None:
        """A connection that outlives the process in whose context it is opened."""
        if self._connection is None and self._path.exists():
            token = PROCESS.set(None)
            try:
                opened = apsw.Connection(str(self._path))
            finally:
                PROCESS.reset(token)
            known = "SELECT 1 FROM sqlite_schema WHERE name = ?"
            if opened.execute(known, (self._table,)).fetchone():
                self._connection = opened
            else:
                opened.close()
        return self._connection

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()


class LedgerSeen:
    """The chunks of the ledger."""

    def __init__(self, path: Path) -> None:
        self._file = SeenFile(path, "chunks")
        self._selections: dict[str, Selection] = {}

    def chunks(self) -> list[ChunkSeen]:
        connection = self._file.connection
        rows: Any = () if connection is None else connection.execute(_CHUNKS)
        return [ChunkSeen(*row) for row in rows]

    def selection(self, hash_: str) -> Selection:
        if hash_ not in self._selections:
            assert self._file.connection is not None
            tx = SqliteTransaction(
                self._file.connection, lambda: {"now": 0.0, "actor": "", "shard": 0}
            )
            self._selections[hash_] = run_sync(views.selection(tx, hash_))
        return self._selections[hash_]

    def close(self) -> None:
        self._file.close()


class SinkSeen(Protocol):
    """The records of a sink."""

    def ranges(self) -> list[RangeSeen]: ...
    def close(self) -> None: ...


class SqliteSinkSeen:
    def __init__(self, path: Path) -> None:
        self._file = SeenFile(path, "_gapless_ranges")

    def ranges(self) -> list[RangeSeen]:
        connection = self._file.connection
        rows: Any = () if connection is None else connection.execute(_RANGES)
        return [RangeSeen(*row) for row in rows]

    def close(self) -> None:
        self._file.close()


class ParquetSinkSeen:
    def __init__(self, path: Path, anchor: str) -> None:
        self._anchor = anchor  # the table of blocks
        self._manifest = path / "_gapless" / "manifest.json"

    def ranges(self) -> list[RangeSeen]:
        if not self._manifest.exists():
            return []
        manifest = decoded(self._manifest, self._manifest.read_bytes())
        found = []
        for chain in manifest.chains.values():
            found += [
                RangeSeen(it.dataset, it.first, it.last, it.fence, "written")
                for it in chain.entries()
            ]
            found += [RangeSeen(self._anchor, *each, "retracted") for each in chain.retracted]
        return sorted(found)

    def close(self) -> None:
        pass


def sink_seen(kind: str, path: Path, anchor: str) -> SinkSeen:
    return SqliteSinkSeen(path) if kind == "sqlite" else ParquetSinkSeen(path, anchor)
