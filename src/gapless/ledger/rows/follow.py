"""Rows of `cursors`, and what is left of deleted chunks and backfills in `counts`."""

from __future__ import annotations

import msgspec

from gapless.core.errors import Unreadable
from gapless.ledger.cursor import Cursor
from gapless.ledger.rows.chunk import EndedCounts
from gapless.ledger.rows.texts import SPEC, read


class StoredCursor(msgspec.Struct, frozen=True):
    follow: str
    backfill_id: str
    owner: str | None
    lease_until: float | None
    fence: int
    version: int
    state: str
    updated_at: float
    head_seen_at: float | None
    head_time: float | None
    trouble: str | None


class TimedCursor(StoredCursor, frozen=True):
    """A cursor, and the time at which it was read."""

    now: float

    def cursor(self) -> Cursor:
        """The cursor, even if its state cannot be read: its follow can still be removed."""
        columns, unreadable = msgspec.structs.asdict(self), None
        try:
            state = read(self.backfill_id, "cursor", self.state, SPEC)
        except Unreadable as error:
            state, unreadable = {}, str(error)
        return Cursor(**(columns | {"state": state, "unreadable": unreadable}))


class FoldedCounts(EndedCounts, frozen=True):
    """Chunks of a backfill that were deleted, by status, and backfills of its follow."""

    backfills: int = 0
    failed_runs: int = 0  # of the deleted chunks
    purged: int = 0  # of the deleted dead letters


class FoldableBackfill(msgspec.Struct, frozen=True):
    """An ended backfill of a follow that may be deleted."""

    id: str
    selection: str
