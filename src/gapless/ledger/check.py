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
from gapless.core.events import BackfillCompacted
from gapless.core.projection import Projection, digest
from gapless.core.remedies import CheckLedger
from gapless.ledger import control, views
from gapless.ledger.database import LedgerTransaction
from gapless.ledger.rows.chunk import EndedCounts
from gapless.ledger.rows.queue import FailureCounters


async def check(tx: LedgerTransaction, backfill_id: str) -> list[str]:
    """The places where the tables of a backfill disagree with its events or with each other."""
    backfill = await views.backfill(tx, backfill_id)
    facts = await views.chunk_facts(tx, backfill_id)
    projection = Projection(Lifecycle(backfill_id))
    async for event, _ in views.events(tx, backfill_id):
        projection.apply(event)
    problems = projection.differences(backfill.lifecycle, facts)
    counts = backfill.chunks
    counters = EndedCounts(counts.complete, counts.abandoned, counts.cancelled)
    (counted,) = await tx.fetch_as(EndedCounts, "counted", id=backfill_id)
    if counters != counted:
        problems.append(f"counters say {counters}, the rows are {counted}")
    failures = await _failure_counters(tx, backfill_id)
    if projection.failed_runs not in (None, failures.failed_runs):
        problems.append(
            f"the counter of failed runs says {failures.failed_runs}, the events say"
            f" {projection.failed_runs}"
        )
    if failures.purged != failures.purged_rows:
        problems.append(
            f"the counter of purged dead letters says {failures.purged}, the rows are"
            f" {failures.purged_rows}"
        )
    planned = planned_indices(backfill.order, counts.total, counts.planned)
    if [chunk.chunk_index for chunk in facts] != list(planned):
        problems.append(f"{len(facts)} chunks stand for {counts.planned} planned ones")
    if backfill.unreadable:
        problems.append(backfill.unreadable)
    if not await _selection_holds(tx, backfill.selection):
        problems.append("the selection does not match its hash")
    return [f"{backfill_id}: {problem}" for problem in problems]


async def _failure_counters(tx: LedgerTransaction, backfill_id: str) -> FailureCounters:
    (found,) = await tx.fetch_as(FailureCounters, "failure_counters", id=backfill_id)
    return found


async def _selection_holds(tx: LedgerTransaction, digest: str) -> bool:
    found = await views.selection_if_readable(tx, digest)
    return found is not None and found.digest == digest


async def compactable(tx: LedgerTransaction) -> list[str]:
    return [row[0] for row in await tx.fetch("compactable")]


async def compact(tx: LedgerTransaction, backfill_id: str) -> int:
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
                backfill_id,
                deleted,
                counts.complete,
                counts.abandoned,
                counts.cancelled,
                snapshot,
                (await _failure_counters(tx, backfill_id)).failed_runs,
            )
        ],
    )
    return deleted
