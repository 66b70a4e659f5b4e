"""The records of a SQLite sink, in the table `_gapless_ranges` of the same file.

The ranges of a table are disjoint. They change in the transaction that changes the rows.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import apsw

from gapless.core.ranges import Span
from gapless.schema import BLOCKS, TABLES
from gapless.sinks.records import Known, Retracted
from gapless.sinks.sink import Stored

CREATE = """
CREATE TABLE IF NOT EXISTS _gapless_ranges (
  chain_id INTEGER NOT NULL,
  dataset TEXT NOT NULL,
  first INTEGER NOT NULL,
  last INTEGER NOT NULL,
  fence INTEGER NOT NULL,
  kind TEXT NOT NULL,      -- 'written' or 'retracted'
  rows INTEGER NOT NULL,
  digest BLOB NOT NULL,
  proven TEXT NOT NULL,    -- names of checks, with spaces between them
  unproven TEXT NOT NULL,
  parent_hash BLOB NOT NULL,
  last_hash BLOB NOT NULL,
  PRIMARY KEY (chain_id, dataset, first),
  CHECK (first <= last)
) STRICT, WITHOUT ROWID
"""
# Ranges are disjoint, so of those that begin before ours only the last one can reach into it.
_WITHIN = """
SELECT dataset, first, last, fence, kind, rows, digest, proven, unproven, parent_hash, last_hash
FROM _gapless_ranges
WHERE chain_id = :chain AND dataset = :dataset AND last >= :first AND first <= :last
  AND first >= coalesce(
    (SELECT max(first) FROM _gapless_ranges
     WHERE chain_id = :chain AND dataset = :dataset AND first <= :first), 0)
ORDER BY first
"""
_DELETE = "DELETE FROM _gapless_ranges WHERE chain_id = ? AND dataset = ? AND first = ?"
_INSERT = "INSERT INTO _gapless_ranges VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
_CHAINS = "SELECT DISTINCT chain_id FROM _gapless_ranges WHERE kind = 'written' ORDER BY chain_id"
_WRITTEN, _RETRACTED = "written", "retracted"


class Ranges:
    """The records, read and written on the connection of the sink."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection

    def within(self, chain_id: int, span: Span) -> Known:
        """What overlaps a range."""
        first, last = span
        rows = [
            row
            for table in TABLES
            for row in self._connection.execute(
                _WITHIN,
                {"chain": chain_id, "dataset": table.name, "first": first, "last": last},
            )
        ]
        return Known(
            tuple(_stored(row) for row in rows if row[4] == _WRITTEN),
            tuple(Retracted(Span(*row[1:3]), row[3]) for row in rows if row[4] == _RETRACTED),
        )

    def replace(
        self,
        chain_id: int,
        known: Known,
        stored: Iterable[Stored],
        retracted: Iterable[Retracted],
    ) -> None:
        """Puts these records in the place of the known ones."""
        before = {*map(_row, known.stored), *map(_row, known.retracted)}
        after = {*map(_row, stored), *map(_row, retracted)}
        gone = [(chain_id, dataset, first) for dataset, first, *_ in before - after]
        self._connection.executemany(_DELETE, gone)
        self._connection.executemany(_INSERT, [(chain_id, *row) for row in after - before])

    def chains(self) -> list[int]:
        return [chain_id for (chain_id,) in self._connection.execute(_CHAINS)]

    def highest_fence(self) -> int:
        found = self._connection.execute("SELECT coalesce(max(fence), 0) FROM _gapless_ranges").get
        return int(found)


def _stored(row: tuple[Any, ...]) -> Stored:
    dataset, first, last, fence, _, rows, digest, proven, unproven, parent_hash, last_hash = row
    return Stored(
        dataset=dataset,
        span=Span(first, last),
        fence=fence,
        rows=rows,
        digest=int.from_bytes(digest, "big"),
        proven=frozenset(proven.split()),
        unproven=frozenset(unproven.split()),
        parent_hash=parent_hash,
        last_hash=last_hash,
    )


def _row(record: Stored | Retracted) -> tuple[Any, ...]:
    if isinstance(record, Retracted):
        empty = (0, bytes(32), "", "", b"", b"")
        return (BLOCKS.name, *record.span, record.fence, _RETRACTED, *empty)
    return (
        record.dataset,
        *record.span,
        record.fence,
        _WRITTEN,
        record.rows,
        record.digest.to_bytes(32, "big"),
        " ".join(sorted(record.proven)),
        " ".join(sorted(record.unproven)),
        record.parent_hash,
        record.last_hash,
    )
