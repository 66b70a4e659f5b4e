"""Checking and compacting a ledger.

`check` folds the events of every backfill and compares the result with the tables, row by row; it
also counts the rows behind the counters. `compact` replaces the chunk events of an ended backfill
by one event with their digest, and only if events and tables agree. It also deletes the records of
failed runs, except those of dead letters.
"""

from __future__ import annotations

from gapless.core.backfill import Lifecycle
from gapless.core.chunk import planned_indices
from gapless.core.errors import LedgerError
from gapless.core.events import BackfillCompacted, BackfillFolded
from gapless.core.projection import Projection, digest
from gapless.core.remedies import CheckLedger
from gapless.ledger import control, views
from gapless.ledger.database import Transaction
from gapless.ledger.records import Backfill
from gapless.ledger.rows.chunk import EndedCounts
from gapless.ledger.rows.follow import FoldedCounts


async def check(tx: Transaction, backfill_id: str) -> list[str]:
    """The places where the tables of a backfill disagree with its events or with each other."""
    backfill = await views.backfill(tx, backfill_id)
    facts = await views.chunk_facts(tx, backfill_id)
    projection = Projection(Lifecycle(backfill_id))
    async for event, _ in views.events(tx, backfill_id):
        projection.apply(event)
    if projection.folded is not None and not backfill.standing:
        return []  # it is being deleted, piece by piece
    problems = projection.differences(backfill.lifecycle, facts)
    counts = backfill.chunks
    counters = EndedCounts(counts.complete, counts.abandoned, counts.cancelled)
    (counted,) = await tx.fetch_as(EndedCounts, "counted", id=backfill_id)
    (folded,) = await tx.fetch_as(FoldedCounts, "folded", id=backfill_id)
    if counters != counted + folded:
        problems.append(f"counters say {counters}, the rows are {counted + folded}")
    if _folded_in(projection.folded) != folded:
        problems.append(f"counters say {folded} folded, the event is {projection.folded}")
    if not _is_planned(backfill, [chunk.chunk_index for chunk in facts], folded):
        problems.append(f"{len(facts)} chunks stand for {counts.planned} planned ones")
    if backfill.unreadable:
        problems.append(backfill.unreadable)
    if not await _selection_holds(tx, backfill.selection):
        problems.append("the selection does not match its hash")
    return [f"{backfill_id}: {problem}" for problem in problems]


def _folded_in(event: BackfillFolded | None) -> FoldedCounts:
    if event is None:
        return FoldedCounts()
    return FoldedCounts(event.complete, event.abandoned, event.cancelled, event.backfills)


def _is_planned(backfill: Backfill, indices: list[int], folded: FoldedCounts) -> bool:
    """Whether the chunks with these indices are those that were planned and not folded."""
    total, planned = backfill.chunks.total, backfill.chunks.planned
    if backfill.standing:
        return total == planned == len(indices) + folded.total and max(indices, default=-1) < total
    return indices == [*planned_indices(backfill.order, total, planned)]


async def _selection_holds(tx: Transaction, digest: str) -> bool:
    found = await views.selection_if_readable(tx, digest)
    return found is not None and found.digest == digest


async def compactable(tx: Transaction) -> list[str]:
    return [row[0] for row in await tx.fetch("compactable")]


async def compact(tx: Transaction, backfill_id: str) -> int:
    """Replaces the chunk events of an ended backfill; returns how many were deleted."""
    await tx.fetch("lock_backfill", id=backfill_id)
    if problems := await check(tx, backfill_id):
        raise LedgerError(f"cannot compact: {problems[0]}", remedy=CheckLedger())
    counts = (await views.backfill(tx, backfill_id)).chunks
    snapshot = digest(await views.chunk_facts(tx, backfill_id))
    deleted = len(await tx.fetch("drop_chunk_events", id=backfill_id))
    await tx.fetch("drop_attempts", id=backfill_id)
    await control.append(
        tx,
        [
            BackfillCompacted(
                backfill_id, deleted, counts.complete, counts.abandoned, counts.cancelled, snapshot
            )
        ],
    )
    return deleted
