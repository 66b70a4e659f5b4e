"""Retrying what failed: always in a new backfill, the child; its parent never changes.

A child selects exactly what its parent did not complete: the holes, what comes after the last
processed partition of a chunk that was not completed, and what never ran because of a halt or a
cancel. Repeating a request id returns the same child. What was retried as a dead letter is not
retried again with its backfill, and vice versa. Of a standing backfill, only dead letters can be
retried this way: its follow plans them again too.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence

from gapless.core.backfill import State
from gapless.core.chunk import Order, unplanned_positions
from gapless.core.errors import NotFound, Unreadable, UsageError, WrongState
from gapless.core.ranges import RangeSet
from gapless.core.remedies import EndBackfill, ListDeadLetters
from gapless.core.selector import Explicit, Selection, summary
from gapless.ledger import control, views
from gapless.ledger.database import LedgerTransaction, one
from gapless.ledger.records import Backfill, BackfillRequest
from gapless.ledger.rows.chunk import ChunkProgress


async def retry_failed(
    tx: LedgerTransaction, parent_id: str, child_id: str, request_id: str | None = None
) -> Backfill:
    """Creates a child with everything that an ended parent did not complete."""
    parent = await _lock(tx, parent_id)
    request_id = request_id or f"{parent_id}:{parent.lifecycle.state_version}"
    if row := await one(tx, "retry_child", parent=parent_id, request_id=request_id):
        return await views.backfill(tx, row[0])
    if parent.standing:
        raise WrongState(
            f"backfill `{parent_id}` is standing: its follow plans what failed again",
            remedy=ListDeadLetters(parent_id),
        )
    if parent.state is State.SUCCEEDED:
        raise WrongState(f"backfill `{parent_id}` SUCCEEDED: there is nothing to retry")
    if not parent.state.ended:
        raise WrongState(
            f"backfill `{parent_id}` is {parent.state}: only an ended one can be retried",
            remedy=EndBackfill(parent_id),
        )
    incomplete = await tx.fetch_as(ChunkProgress, "incomplete", id=parent_id)
    missing = missing_positions(
        incomplete, parent.order, parent.partitions, parent.chunk_size, parent.chunks.planned
    )
    taken = [
        await views.selection(tx, row[0])
        for row in await tx.fetch("dead_children", parent=parent_id)
    ]
    child = await _child(tx, parent, child_id, request_id, missing, taken)
    await control.purge(tx, parent_id, None)  # the child retries them
    return child


async def retry_dead(
    tx: LedgerTransaction, parent_id: str, child_id: str, indices: Sequence[int]
) -> Backfill:
    """Creates a child with the missing partitions of dead letters of a backfill in any state."""
    parent = await _lock(tx, parent_id)
    wanted = sorted(set(indices))
    request_id = _request_for(wanted)
    if row := await one(tx, "retry_child", parent=parent_id, request_id=request_id):
        return await views.backfill(tx, row[0])
    letters = await views.dead(tx, parent_id, views.EVERYTHING)
    dead = {letter.chunk_index: letter for letter in letters}
    if unknown := [index for index in wanted if index not in dead]:
        raise UsageError(
            f"chunk {unknown[0]} of `{parent_id}` is not a dead letter",
            remedy=ListDeadLetters(parent_id),
        )
    if parent.standing:
        await _refuse_instructed(tx, parent_id, wanted)
    missing = RangeSet(span for index in wanted for span in dead[index].missing.spans)
    child = await _child(tx, parent, child_id, request_id, missing)
    await control.purge(tx, parent_id, wanted)
    return child


def missing_positions(
    incomplete: Iterable[ChunkProgress],
    order: Order,
    partitions: int,
    chunk_size: int,
    planned: int,
) -> RangeSet:
    """What an ended backfill did not do, given the chunks that it did not complete."""
    left = [span for chunk in incomplete for span in chunk.missing().spans]
    return RangeSet(left) | unplanned_positions(order, partitions, chunk_size, planned)


async def _refuse_instructed(tx: LedgerTransaction, parent_id: str, indices: Sequence[int]) -> None:
    """Refuses chunks with a payload or a fence of their own, which no child would have."""
    for index in indices:
        (chunk,) = await views.chunks(tx, parent_id, index, index)
        if chunk.payload is not None or chunk.write_fence is not None:
            raise WrongState(
                f"chunk {index} of `{parent_id}` has a payload: only its follow can plan it again"
            )


def _request_for(indices: Sequence[int]) -> str:
    """The request id for these dead letters: short, however many there are."""
    named = ",".join(map(str, indices))
    return f"dead:{hashlib.sha256(named.encode()).hexdigest()}"


async def _lock(tx: LedgerTransaction, parent_id: str) -> Backfill:
    """The parent, locked so that concurrent requests create one child."""
    await tx.fetch("lock_backfill", id=parent_id)
    parent = await views.backfill(tx, parent_id)
    if not parent.standing and await tx.fetch("has_folded", id=parent_id):
        raise NotFound(f"backfill `{parent_id}` is being deleted: its follow has finished it")
    if parent.unreadable:
        raise Unreadable(parent.unreadable, hint="start a new backfill in its place")
    return parent


async def _child(
    tx: LedgerTransaction,
    parent: Backfill,
    child_id: str,
    request_id: str,
    positions: RangeSet,
    taken: Sequence[Selection] = (),
) -> Backfill:
    selection = (await views.selection(tx, parent.selection)).pick(positions)
    for other in taken:
        selection = selection.without(other)
    if not len(selection):
        raise WrongState(f"backfill `{parent.id}` misses no partition: there is nothing to retry")
    child = await control.create(
        tx,
        BackfillRequest(
            id=child_id,
            selector=_selector(selection),
            selection=selection,
            parent_backfill_id=parent.id,
            retry_request_id=request_id,
            **parent.inherited(),
        ),
    )
    await tx.fetch("inherit_syncs", parent=parent.id, child=child.id)
    return child


def _selector(selection: Selection) -> dict[str, object]:
    """A summary of the child's selection, as small as events need it."""
    first = Explicit.of(selection.key(position) for position in range(min(3, len(selection))))
    form = summary(first)
    return {**form, "more": len(selection) - len(form["keys"])}
