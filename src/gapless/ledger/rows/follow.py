"""Rows of `cursors`, and what is left of deleted chunks and backfills in `counts`."""

from __future__ import annotations

import msgspec

from gapless.ledger.records import Cursor
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


class TimedCursor(StoredCursor, frozen=True):
    """A cursor, and the time at which it was read."""

    now: float

    def cursor(self) -> Cursor:
        state = read(self.backfill_id, "cursor", self.state, SPEC)
        return Cursor(**(msgspec.structs.asdict(self) | {"state": state}))


class FoldedCounts(EndedCounts, frozen=True):
    """Chunks of a backfill that were deleted, by status, and backfills of its follow."""

    backfills: int = 0


class FoldableBackfill(msgspec.Struct, frozen=True):
    """An ended backfill of a follow that may be deleted."""

    id: str
    selection: str
