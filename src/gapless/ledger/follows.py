"""Following a chain's head: leading a follow, and appending to its standing backfill.

A follow is a durable thing with a name. It has one standing backfill, which never ends by itself,
any number of closed ones for the history that it fills, and a cursor. Many processes may want to
lead it; the cursor elects one of them:

    free ──lead──> led by an owner until `lease_until` ──resign, or the lease ends──> free
                        │   ^
                        └───┘ lead again: the lease is renewed, the fence stays

Each new leader gets a fence from the sequence of the whole ledger. A leader works in steps: it
reads the chain, and appends what follows from that together with the new state of the cursor, in
one transaction. The step names owner, fence and version of the cursor that it is based on. If
another process leads by now, or the step was taken already, nothing happens. So it does no harm if
a leader is suspended past the end of its lease.

Everywhere, a cursor is locked before its backfill, and that before its chunks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from gapless.core.backfill import Command, Lifecycle, State, decide, describe
from gapless.core.chunk import appended_rank
from gapless.core.errors import NotFound, UsageError, WrongState
from gapless.core.events import BackfillChunkPlanned
from gapless.core.ranges import Span
from gapless.core.remedies import ListDeadLetters, ListFollows, ShowBackfill
from gapless.core.spec import encode_spec
from gapless.ledger import control, folding, views
from gapless.ledger.cursor import Cursor, HeadSeen
from gapless.ledger.database import LedgerTransaction, one_as
from gapless.ledger.records import Append, Backfill, NewChunk
from gapless.ledger.rows.chunk import AppendedChunk, DeletedChunk
from gapless.ledger.rows.follow import TimedCursor
from gapless.ledger.rows.texts import json_text


async def lead(
    tx: LedgerTransaction,
    follow: str,
    owner: str,
    lease_seconds: float,
    seen: HeadSeen | None = None,
) -> tuple[Cursor, Backfill] | None:
    """Takes or renews the leadership of a follow; None while somebody else has it.

    Returns the cursor and the standing backfill.
    """
    locked = await one_as(tx, TimedCursor, "lock_cursor", follow=follow)
    if locked is None:
        raise NotFound(f"there is no follow `{follow}`", remedy=ListFollows())
    led = locked.cursor().is_led(lease_seconds)
    if led and locked.owner != owner:
        return None
    wanted = {"follow": follow, "owner": owner, "lease": lease_seconds}
    (row,) = await tx.fetch_as(TimedCursor, "renew_lead" if led else "take_lead", **wanted)
    if seen is not None:
        known = {"ago": seen.ago, "time": seen.time, "trouble": seen.trouble}
        (row,) = await tx.fetch_as(TimedCursor, "note_head", follow=follow, **known)
    return row.cursor(), await views.backfill(tx, row.backfill_id)


async def resign(tx: LedgerTransaction, follow: str, owner: str) -> None:
    """Gives the leadership up, if the owner has it."""
    await tx.fetch("resign", follow=follow, owner=owner)


async def change(
    tx: LedgerTransaction, follow: str, changed: Callable[[Backfill], tuple[dict[str, Any], str]]
) -> None:
    """Changes spec and queue of all backfills of a follow that have not ended.

    Its leader is deposed: it may be about to append something that it planned before the change.
    """
    await tx.fetch("depose", follow=follow)
    for each in await views.backfills(tx, follow=follow, limit=views.EVERYTHING):
        if not each.state.ended:
            spec, queue = changed(each)
            await tx.fetch("change_backfill", id=each.id, spec=encode_spec(spec), queue=queue)


async def remove_cursor(tx: LedgerTransaction, follow: str) -> None:
    """Forgets a follow; its name can be used again."""
    await tx.fetch("remove_cursor", follow=follow)


async def append(tx: LedgerTransaction, step: Append) -> Cursor | None:
    """Takes one step of a follow's leader; None if it does not lead any more."""
    row = await one_as(
        tx,
        TimedCursor,
        "advance_cursor",
        follow=step.follow,
        owner=step.owner,
        fence=step.fence,
        version=step.version,
        state=json_text(step.state),
    )
    if row is None:
        return await _taken_before(tx, step) if tx.again else None
    lifecycle = await control.lock(tx, row.backfill_id)
    _require_open(lifecycle, plans=bool(step.chunks or step.backfills))
    if step.revoke is not None:
        await _revoke(tx, row.backfill_id, step.revoke)
    if step.replace:
        await _replace(tx, row.backfill_id, step.replace)
    if step.chunks:
        await _add_chunks(tx, row.backfill_id, step.chunks)
        await control.record(tx, lifecycle, decide(lifecycle, Command.START))
    for request in step.backfills:
        await control.create(tx, request)
    return row.cursor()


async def _taken_before(tx: LedgerTransaction, step: Append) -> Cursor | None:
    """The cursor, if an earlier attempt took the step and its reply was lost."""
    cursor = await views.cursor(tx, step.follow)
    taken = (cursor.owner, cursor.fence, cursor.version)
    return cursor if taken == (step.owner, step.fence, step.version + 1) else None


def _require_open(lifecycle: Lifecycle, *, plans: bool) -> None:
    """Refuses a step in a backfill that is stopping, and new work in one that is paused."""
    stops = lifecycle.stopping is not None or lifecycle.state.ended
    if stops or (plans and lifecycle.state is State.PAUSED):
        raise WrongState(
            f"backfill `{lifecycle.backfill_id}` is {describe(lifecycle)}: nothing can be appended",
            remedy=ShowBackfill(lifecycle.backfill_id),
        )


async def _revoke(tx: LedgerTransaction, backfill_id: str, heights: Span) -> None:
    """Cancels unfinished chunks that overlap the heights; whoever runs one loses its lease."""
    first, last = heights
    rows = await tx.fetch("revoke", id=backfill_id, first=first, last=last)
    await control.record_cancelled(tx, backfill_id, [row[0] for row in rows])


async def _replace(tx: LedgerTransaction, backfill_id: str, indices: Sequence[int]) -> None:
    wanted = sorted(set(indices))
    gone = await tx.fetch_as(DeletedChunk, "delete_dead", id=backfill_id, indices=wanted)
    if unknown := set(wanted) - {chunk.chunk_index for chunk in gone}:
        raise UsageError(
            f"chunk {min(unknown)} of `{backfill_id}` is not a dead letter",
            remedy=ListDeadLetters(backfill_id),
        )
    await folding.forget_chunks(tx, backfill_id, gone)


async def _add_chunks(tx: LedgerTransaction, backfill_id: str, chunks: Sequence[NewChunk]) -> None:
    """Adds chunks with indices that no chunk ever had."""
    next_index = (await views.backfill(tx, backfill_id)).chunks.planned
    rows = [
        AppendedChunk(
            index,
            appended_rank(chunk.first, draws_fence=chunk.draw_fence),
            chunk.first,
            chunk.last,
            chunk.payload,
            (await tx.fetch("draw_fence"))[0][0] if chunk.draw_fence else None,
        )
        for index, chunk in enumerate(chunks, next_index)
    ]
    await tx.fetch("append_chunks", id=backfill_id, items=rows)
    await control.append(
        tx,
        [BackfillChunkPlanned(backfill_id, row.chunk_index, row.first, row.last) for row in rows],
    )
    partitions = sum(Span(row.first, row.last).size for row in rows)
    await tx.fetch("grow", id=backfill_id, chunks=len(rows), partitions=partitions)
