"""Creating, commanding and ending backfills.

A command locks the backfill's row, lets `gapless.core.backfill` decide, appends the events and
changes the tables, all in one transaction. Settling works the same way: any worker that finds
nothing left to do may end the backfill, and every idle worker checks, so a crash between a
completion and its settling is harmless.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress

import msgspec

from gapless.core import backfill as machine
from gapless.core.backfill import Command, Lifecycle, OpenWork, State, Stop
from gapless.core.chunk import Status
from gapless.core.errors import Conflict, NotFound, Unreadable, WrongState
from gapless.core.events import BackfillCreated, ChunkEnded, Event
from gapless.core.remedies import ListBackfills
from gapless.core.spec import encode_spec
from gapless.ledger import views
from gapless.ledger.database import LedgerTransaction, one_as
from gapless.ledger.records import Backfill, BackfillRequest
from gapless.ledger.rows.backfill import LifecycleRow, NewBackfill
from gapless.ledger.rows.chunk import DeadChunk
from gapless.ledger.rows.event import NewEvent
from gapless.ledger.rows.follow import TimedCursor
from gapless.ledger.rows.texts import json_text


async def create(tx: LedgerTransaction, request: BackfillRequest) -> Backfill:
    """Creates a backfill; repeating the request returns the existing one."""
    row = NewBackfill.of(request)
    await tx.fetch("add_selection", hash=request.selection.digest, data=request.selection.encode())
    if request.group and request.hook:
        quiet = request.quiet_seconds
        await tx.fetch("add_group", name=request.group, hook=request.hook, quiet_seconds=quiet)
    if await tx.fetch("add_backfill", **msgspec.structs.asdict(row)):
        await append(tx, [_created(request, row)])
    backfill = await views.backfill(tx, request.id)
    same = (
        backfill.unreadable is None
        and backfill.job == request.job
        and (backfill.standing, backfill.follow) == (request.standing, request.follow)
        and backfill.selection == request.selection.digest
        and backfill.chunk_size == request.chunk_size
        and encode_spec(backfill.spec) == row.spec
    )
    if not same:
        raise Conflict(
            f"the id `{request.id}` belongs to another backfill, of job `{backfill.job}`",
            hint="give another id, or none",
        )
    if request.standing:
        await _add_cursor(tx, request)
    return backfill


async def command(
    tx: LedgerTransaction, backfill_id: str, wanted: Command, *, force: bool = False
) -> Backfill:
    """Pauses, resumes or cancels a backfill; repeating a command changes nothing."""
    lifecycle = await lock(tx, backfill_id)
    try:
        events = machine.decide(lifecycle, wanted)
    except WrongState:
        if not tx.again:
            raise
        events = ()  # an earlier attempt took effect and its reply was lost
    lifecycle = await record(tx, lifecycle, events)
    if wanted is Command.CANCEL and not lifecycle.state.ended:
        await _sweep(tx, backfill_id, force=force)
    if events or force:
        await settle(tx, backfill_id)
    return await views.backfill(tx, backfill_id)


async def request_stop(tx: LedgerTransaction, backfill_id: str, reason: Stop) -> None:
    """Stops a backfill from within the engine: nothing new starts, active chunks finish."""
    lifecycle = await lock(tx, backfill_id)
    wanted = Command.HALT if reason is Stop.HALT else Command.CANCEL
    if events := machine.decide(lifecycle, wanted):
        await record(tx, lifecycle, events)
        await _sweep(tx, backfill_id)


async def condemn(tx: LedgerTransaction, backfill_id: str, reason: str) -> None:
    """Fails a backfill that no worker can run; chunks that are running may finish."""
    lifecycle = await lock(tx, backfill_id)
    lifecycle = await record(tx, lifecycle, machine.decide(lifecycle, Command.START))
    await record(tx, lifecycle, machine.decide(lifecycle, Command.HALT), error=reason)
    await settle(tx, backfill_id)


async def settle(tx: LedgerTransaction, backfill_id: str) -> State:
    """Ends the backfill if it has nothing left to do; returns its state."""
    lifecycle = await lock(tx, backfill_id)
    if lifecycle.stopping and not lifecycle.state.ended:
        await _sweep(tx, backfill_id)
    (open_work,) = await tx.fetch_as(OpenWork, "open_work", id=backfill_id)
    events = machine.settle(lifecycle, open_work)
    return (await record(tx, lifecycle, events)).state


async def unsettled(tx: LedgerTransaction, backfill_ids: Sequence[str] | None) -> list[str]:
    """The backfills, among these or all, that may be ready to settle."""
    if backfill_ids is not None and not backfill_ids:
        return []
    ids = None if backfill_ids is None else list(backfill_ids)
    return [row[0] for row in await tx.fetch("unsettled", ids=ids)]


async def record(
    tx: LedgerTransaction,
    lifecycle: Lifecycle,
    events: Sequence[Event],
    *,
    error: str | None = None,
) -> Lifecycle:
    """Appends events of a backfill whose row is locked, and applies them to the row.

    Only the first error is recorded.
    """
    if not events:
        return lifecycle
    for event in events:
        lifecycle = machine.apply(lifecycle, event)
    if lifecycle.state is State.FAILED:
        error = await _first_error(tx, lifecycle.backfill_id)
    await append(tx, events)
    await tx.fetch(
        "set_lifecycle",
        id=lifecycle.backfill_id,
        state=lifecycle.state.value,
        state_version=lifecycle.state_version,
        stopping=lifecycle.stopping and lifecycle.stopping.value,
        error=error,
    )
    return lifecycle


async def append(tx: LedgerTransaction, events: Iterable[Event]) -> None:
    await tx.fetch("append_events", items=[NewEvent.of(event) for event in events])


async def purge(tx: LedgerTransaction, backfill_id: str, indices: Sequence[int] | None) -> int:
    """Removes dead letters from the list and returns how many; their chunks stay abandoned."""
    if indices is None:
        purged = await tx.fetch("purge_all_dead", id=backfill_id)
    else:
        purged = await tx.fetch("purge_dead", id=backfill_id, indices=sorted(set(indices)))
    if purged:
        await tx.fetch("count_purged", id=backfill_id, purged=len(purged))
    return len(purged)


async def hasten(tx: LedgerTransaction, backfill_id: str) -> int:
    """Lets failed chunks be claimed again at once; returns how many were waiting."""
    await lock(tx, backfill_id)
    return len(await tx.fetch("hasten", id=backfill_id))


async def note_drift(tx: LedgerTransaction, backfill_id: str, drift: str | None) -> None:
    """Records that the job's catalog has changed since the selection was made."""
    await tx.fetch("note_drift", id=backfill_id, drift=drift)


async def lock(tx: LedgerTransaction, backfill_id: str) -> Lifecycle:
    """Locks a backfill's row, so that nobody else changes it before the commit."""
    row = await one_as(tx, LifecycleRow, "lock_backfill", id=backfill_id)
    if row is None:
        raise NotFound(f"there is no backfill `{backfill_id}`", remedy=ListBackfills())
    return row.lifecycle()


async def record_cancelled(tx: LedgerTransaction, backfill_id: str, indices: Sequence[int]) -> None:
    """Appends the events of chunks that were cancelled, and counts them."""
    if indices:
        await append(tx, [ChunkEnded(backfill_id, each, Status.CANCELLED) for each in indices])
        await tx.fetch("count_cancelled", id=backfill_id, cancelled=len(indices))


async def _add_cursor(tx: LedgerTransaction, request: BackfillRequest) -> None:
    """Gives the follow of a standing backfill its cursor, unless it has one."""
    state = json_text(request.cursor)
    await tx.fetch("add_cursor", follow=request.follow, id=request.id, state=state)
    (found,) = await tx.fetch_as(TimedCursor, "cursor", follow=request.follow)
    if found.backfill_id != request.id:
        raise Conflict(
            f"the follow `{request.follow}` belongs to the backfill `{found.backfill_id}`",
            hint="choose another name for the follow",
        )


async def _sweep(tx: LedgerTransaction, backfill_id: str, *, force: bool = False) -> None:
    """Cancels every chunk without a live lease; with force, also those with one."""
    rows = [
        *await tx.fetch("sweep_pending", id=backfill_id),
        *await tx.fetch("sweep_failed", id=backfill_id),
        *await tx.fetch("sweep_by_force" if force else "sweep_running", id=backfill_id),
    ]
    await record_cancelled(tx, backfill_id, [row[0] for row in rows])


async def _first_error(tx: LedgerTransaction, backfill_id: str) -> str | None:
    chunk = await one_as(tx, DeadChunk, "first_error", id=backfill_id)
    if chunk is None:
        return None
    error = f"{chunk.error_class}: {chunk.error_message}"
    digest = (await views.backfill(tx, backfill_id)).selection
    selection = await views.selection_if_readable(tx, digest)
    where = f"chunk {chunk.chunk_index}"
    if selection is not None:
        with suppress(Unreadable):  # a backfill must end even if its rows cannot be read
            keys = ", ".join(selection.describe(chunk.missing())).replace("\0", r"\x00")
            where += f", partitions {keys}"
    return f"{error} ({where})"


def _created(request: BackfillRequest, row: NewBackfill) -> BackfillCreated:
    return BackfillCreated(
        request.id,
        job=request.job,
        job_version=request.job_version,
        selector=request.selector,
        selection=row.selection,
        partitions=row.partitions,
        chunk_size=request.chunk_size,
        max_concurrent_runs=request.max_concurrent_runs,
        queue=request.queue,
        order=request.order,
        retry=msgspec.to_builtins(request.retry),
        parent_backfill_id=request.parent_backfill_id,
        retry_request_id=request.retry_request_id,
        group=request.group,
        spec=msgspec.json.decode(row.spec),
        timeout=request.timeout,
        standing=request.standing,
        follow=request.follow,
        precedence=request.precedence,
    )
