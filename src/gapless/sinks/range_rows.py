"""Range records as rows of the table `_gapless_ranges`, in the same format in every database.

The ranges of a table are disjoint. Records change in the same transaction as the rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from gapless.core.ranges import Span
from gapless.sinks.records import RangeRecords, Retracted
from gapless.sinks.sink import Stored

COLUMNS = (
    "dataset, first, last, fence, kind, rows, digest, proven, unproven, parent_hash, last_hash"
)
"""The columns that follow `chain_id`."""

_CREATE = """
CREATE TABLE {place} (
  chain_id {number} NOT NULL,
  dataset TEXT NOT NULL,
  first {number} NOT NULL,
  last {number} NOT NULL,
  fence {number} NOT NULL,
  kind TEXT NOT NULL,      -- 'written', 'expired' or 'retracted'
  rows {number} NOT NULL,
  digest {data} NOT NULL,
  proven TEXT NOT NULL,    -- names of checks, separated by spaces
  unproven TEXT NOT NULL,
  parent_hash {data} NOT NULL,
  last_hash {data} NOT NULL,
  PRIMARY KEY (chain_id, dataset, first),
  CHECK (first <= last)
)
"""

WRITTEN, EXPIRED, RETRACTED = "written", "expired", "retracted"
EVERY_DATASET = "*"
"""The dataset of a retraction, which removes the rows of every table."""

Row = tuple[Any, ...]


def create(place: str, number: str, data: str) -> str:
    """Return `CREATE TABLE` with the database's types for numbers and bytes."""
    return _CREATE.format(place=place, number=number, data=data)


def records_from(rows: Iterable[Sequence[Any]]) -> RangeRecords:
    """Return the records that these rows store."""
    stored, retracted = [], []
    for row in rows:
        if row[4] == RETRACTED:
            retracted.append(Retracted(Span(row[1], row[2]), row[3]))
        else:
            stored.append(_stored(row))
    return RangeRecords(tuple(stored), tuple(retracted))


def changes(
    known: RangeRecords, stored: Iterable[Stored], retracted: Iterable[Retracted]
) -> tuple[list[tuple[str, int]], list[Row]]:
    """Return the rows to delete, as dataset and first height, and the rows to insert."""
    before = {*map(_to_row, known.stored), *map(_to_row, known.retracted)}
    after = {*map(_to_row, stored), *map(_to_row, retracted)}
    return [(dataset, first) for dataset, first, *_ in before - after], [*(after - before)]


def _stored(row: Sequence[Any]) -> Stored:
    dataset, first, last, fence, kind, rows, digest, proven, unproven, parent_hash, last_hash = row
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
        expired=kind == EXPIRED,
    )


def _to_row(record: Stored | Retracted) -> Row:
    if isinstance(record, Retracted):
        empty = (0, bytes(32), "", "", b"", b"")
        return (EVERY_DATASET, *record.span, record.fence, RETRACTED, *empty)
    return (
        record.dataset,
        *record.span,
        record.fence,
        EXPIRED if record.expired else WRITTEN,
        record.rows,
        record.digest.to_bytes(32, "big"),
        " ".join(sorted(record.proven)),
        " ".join(sorted(record.unproven)),
        record.parent_hash,
        record.last_hash,
    )
