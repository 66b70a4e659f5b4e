"""Deleting what a follow has finished, so that a ledger does not grow with the chain.

The leader of a follow deletes ended chunks of its standing backfill with their events and failed
runs, and backfills of the follow that have ended. Counters keep how many there were, and so does
one event, `BackfillFolded`, which is replaced each time; `check` compares both with what is left.

A backfill may have more chunks than one transaction should delete. Its own `BackfillFolded` event
then marks it as being deleted, and its row is the last to go.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from gapless.core.chunk import Status
from gapless.core.events import BackfillFolded
from gapless.ledger import control
from gapless.ledger.database import Transaction, one_as
from gapless.ledger.rows.chunk import DeletedChunk
from gapless.ledger.rows.event import NewEvent
from gapless.ledger.rows.follow import FoldableBackfill, FoldedCounts, TimedCursor


async def fold(tx: Transaction, follow: str, owner: str, fence: int, below: int, limit: int) -> int:
    """Deletes up to `limit` ended chunks below a height, and of ended backfills of the follow.

    Returns how many chunks and backfills it deleted; none if this owner does not lead any more.
    """
    cursor = await one_as(tx, TimedCursor, "lock_cursor", follow=follow)
    if cursor is None or (cursor.owner, cursor.fence) != (owner, fence):
        return 0
    lifecycle = await control.lock(tx, cursor.backfill_id)
    deleted = 0
    if not lifecycle.state.ended:  # what has ended may be compacted, and stays as it is
        bounds = {"below": below, "limit": limit}
        gone = await tx.fetch_as(DeletedChunk, "delete_ended", id=cursor.backfill_id, **bounds)
        await forget_chunks(tx, cursor.backfill_id, gone)
        deleted += len(gone)
    while deleted < limit:
        piece = await _fold_backfill(tx, cursor, limit - deleted)
        if not piece:
            break
        deleted += piece
    return deleted


async def forget_chunks(tx: Transaction, backfill_id: str, chunks: Sequence[DeletedChunk]) -> None:
    """Deletes what belongs to deleted chunks of a standing backfill, and counts them."""
    if not chunks:
        return
    indices = [chunk.chunk_index for chunk in chunks]
    await tx.fetch("delete_events_of", id=backfill_id, indices=indices)
    await tx.fetch("delete_attempts_of", id=backfill_id, indices=indices)
    ended = Counter(chunk.status for chunk in chunks)
    await _count(
        tx,
        backfill_id,
        FoldedCounts(ended[Status.COMPLETE], ended[Status.ABANDONED], ended[Status.CANCELLED]),
    )


async def _fold_backfill(tx: Transaction, cursor: TimedCursor, limit: int) -> int:
    """Deletes a backfill of the follow, or up to `limit` of its chunks; returns how many rows."""
    found = await _foldable(tx, cursor.follow)
    if found is None:
        return 0
    await control.lock(tx, found.id)
    if await _foldable(tx, cursor.follow, found.id) is None:
        return 0
    gone = await tx.fetch_as(DeletedChunk, "delete_chunks", id=found.id, limit=limit)
    if len(gone) == limit:
        await _delete_piece(tx, found.id, [chunk.chunk_index for chunk in gone])
        return len(gone)
    await tx.fetch("delete_backfill", id=found.id)
    await tx.fetch("lock_selection", hash=found.selection)
    await tx.fetch("delete_selection", hash=found.selection)
    await _count(tx, cursor.backfill_id, FoldedCounts(backfills=1))
    return len(gone) + 1


async def _foldable(
    tx: Transaction, follow: str, only: str | None = None
) -> FoldableBackfill | None:
    return await one_as(tx, FoldableBackfill, "foldable", follow=follow, only=only)


async def _delete_piece(tx: Transaction, backfill_id: str, indices: Sequence[int]) -> None:
    """Deletes about as many events as belong to these chunks, and marks the backfill."""
    await _replace_event(tx, BackfillFolded(backfill_id, 0, 0, 0, 0))
    await tx.fetch("delete_attempts_of", id=backfill_id, indices=list(indices))
    await tx.fetch("delete_oldest_events", id=backfill_id, limit=3 * len(indices))


async def _count(tx: Transaction, backfill_id: str, more: FoldedCounts) -> None:
    await tx.fetch(
        "count_folded",
        id=backfill_id,
        complete=more.complete,
        abandoned=more.abandoned,
        cancelled=more.cancelled,
        backfills=more.backfills,
    )
    (now,) = await tx.fetch_as(FoldedCounts, "folded", id=backfill_id)
    await _replace_event(
        tx,
        BackfillFolded(backfill_id, now.complete, now.abandoned, now.cancelled, now.backfills),
    )


async def _replace_event(tx: Transaction, event: BackfillFolded) -> None:
    await tx.fetch("replace_event", items=[NewEvent.of(event)])
