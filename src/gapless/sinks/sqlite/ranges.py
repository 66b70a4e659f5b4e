"""The records of a SQLite sink, in the table `_gapless_ranges` of the same file.

The requests and changes are in tables beside it, which sinks of older versions lack.
"""

from __future__ import annotations

from collections.abc import Iterable

import apsw

from gapless.core.ranges import Span
from gapless.schema import Schema
from gapless.sinks import companion, feed, requests
from gapless.sinks.range_rows import COLUMNS, EVERY_DATASET, changes, create, records_from
from gapless.sinks.records import RangeRecords, Retracted
from gapless.sinks.sink import Stored

CREATE = create("_gapless_ranges", "INTEGER", "BLOB") + " STRICT, WITHOUT ROWID"
CREATE_OWN = tuple(
    f"{statement} STRICT"
    for statement in (
        requests.create(requests.TABLE, "INTEGER"),
        *feed.create(feed.PLACES, "INTEGER"),
        companion.create(companion.TABLE, "INTEGER"),
    )
)
OWN_TABLES = {requests.TABLE, *feed.TABLES, companion.TABLE}
# Ranges are disjoint: of those that begin before this one, only the last can overlap it.
_WITHIN = f"""
SELECT {COLUMNS}
FROM _gapless_ranges
WHERE chain_id = :chain AND dataset = :dataset AND last >= :first AND first <= :last
  AND first >= coalesce(
    (SELECT max(first) FROM _gapless_ranges
     WHERE chain_id = :chain AND dataset = :dataset AND first <= :first), 0)
ORDER BY first DESC
LIMIT :limit
"""  # noqa: S608 - our own names
_CHAINS = "SELECT DISTINCT chain_id FROM _gapless_ranges WHERE kind <> 'retracted'"
_DELETE = "DELETE FROM _gapless_ranges WHERE chain_id = ? AND dataset = ? AND first = ?"
_INSERT = "INSERT INTO _gapless_ranges VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"


class Ranges:
    """Reads and writes the records on the connection of the sink."""

    def __init__(self, connection: apsw.Connection, schema: Schema) -> None:
        self._connection = connection
        self._datasets = (*schema, EVERY_DATASET)

    def within(self, chain_id: int, span: Span, limit: int | None = None) -> RangeRecords:
        """Return the records that overlap a range; with a limit, the highest of each dataset."""
        bounds = {"first": span.first, "last": span.last, "limit": -1 if limit is None else limit}
        rows = [
            row
            for dataset in self._datasets
            for row in self._connection.execute(
                _WITHIN, {"chain": chain_id, "dataset": dataset, **bounds}
            )
        ]
        return records_from(rows)

    def replace(
        self,
        chain_id: int,
        known: RangeRecords,
        stored: Iterable[Stored],
        retracted: Iterable[Retracted],
    ) -> None:
        """Replace the known records with these."""
        removed, added = changes(known, stored, retracted)
        self._connection.executemany(_DELETE, [(chain_id, *each) for each in removed])
        self._connection.executemany(_INSERT, [(chain_id, *each) for each in added])

    def chains(self) -> set[int]:
        """Return the chains that have stored blocks."""
        return {chain_id for (chain_id,) in self._connection.execute(_CHAINS)}

    def highest_fence(self) -> int:
        found = self._connection.execute("SELECT coalesce(max(fence), 0) FROM _gapless_ranges").get
        return int(found)
