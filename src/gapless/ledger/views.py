"""Reading a ledger: backfills, chunks, dead letters, events. Nothing here writes."""

from __future__ import annotations

import zlib
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, TypeVar

import msgspec

from gapless.core.chunk import Order, Status, Tries
from gapless.core.errors import NotFound, Unreadable
from gapless.core.events import AnyEvent, Codec
from gapless.core.projection import ChunkFacts
from gapless.core.ranges import Span
from gapless.core.remedies import ListBackfills
from gapless.core.retry import RetryPolicy
from gapless.core.selector import ExplicitSummary, Selection, Summary
from gapless.ledger.database import Row, Transaction, one
from gapless.ledger.records import (
    RESERVED,
    Attempt,
    Backfill,
    ChunkCounts,
    ChunkRow,
    DeadLetter,
    Progress,
    decode_holes,
    decoded,
    lifecycle_from_row,
    missing_of_row,
    order_of,
)

T = TypeVar("T")
PAGE = 10_000
EVERYTHING = 2**53
_PAGES = {
    Status.RUNNING: "chunks_running_page",
    Status.FAILED: "chunks_failed_page",
    Status.PENDING: "chunks_pending_page",
    Status.ABANDONED: "chunks_abandoned_page",
}


async def backfill(tx: Transaction, backfill_id: str) -> Backfill:
    row = await one(tx, "backfill", id=backfill_id)
    if row is None:
        raise NotFound(f"there is no backfill `{backfill_id}`", remedy=ListBackfills())
    return _backfill(row)


async def backfills(
    tx: Transaction, *, state: str | None = None, hooks: bool = True, limit: int
) -> list[Backfill]:
    """The newest backfills, of one state or of all.

    Without hooks, those of groups are left out unless they have failed.
    """
    without = None if hooks else RESERVED
    rows = await tx.fetch("backfills", state=state, without=without, limit=limit)
    return [_backfill(row) for row in rows]


async def selection(tx: Transaction, digest: str) -> Selection:
    row = await one(tx, "selection", hash=digest)
    try:
        if row is None:
            raise ValueError("it is not in the ledger")
        return Selection.decode(row[0])
    except (zlib.error, msgspec.MsgspecError, TypeError, ValueError) as error:
        raise Unreadable(f"the selection `{digest:.16}` cannot be read: {error}") from error


async def selection_if_readable(tx: Transaction, digest: str) -> Selection | None:
    try:
        return await selection(tx, digest)
    except Unreadable:
        return None


async def chunks(
    tx: Transaction, backfill_id: str, low: int = 0, high: int = EVERYTHING, limit: int = PAGE
) -> list[ChunkRow]:
    """Planned chunks by index."""
    rows = await tx.fetch("chunk_page", id=backfill_id, low=low, high=high, limit=limit)
    return [_chunk(row) for row in rows]


async def chunks_with(
    tx: Transaction, backfill_id: str, statuses: Sequence[Status], limit: int
) -> list[ChunkRow]:
    """Planned chunks of these statuses, one status after the other.

    Running ones come by the end of their lease, failed ones by when they are due, pending ones in
    the order of their runs, all others by index.
    """
    found: list[ChunkRow] = []
    for status in statuses:
        page = _PAGES.get(status, "chunks_done_page")
        rows = await tx.fetch(page, id=backfill_id, status=status, limit=limit - len(found))
        found += [_chunk(row) for row in rows]
    return found


async def open_chunks(tx: Transaction, backfill_id: str, limit: int) -> list[ChunkRow]:
    """Chunks that have not ended: running ones first, then failed ones by due, then pending."""
    unended = (Status.RUNNING, Status.FAILED, Status.PENDING)
    return await chunks_with(tx, backfill_id, unended, limit)


async def attempts(tx: Transaction, backfill_id: str, chunk_index: int) -> list[Attempt]:
    """The latest failed runs of a chunk, the oldest first."""
    rows = await tx.fetch("attempts", id=backfill_id, chunk_index=chunk_index)
    return [Attempt(*row) for row in rows]


async def dead(
    tx: Transaction, backfill_id: str | None = None, limit: int = PAGE
) -> list[DeadLetter]:
    """Dead letters that nobody has purged or retried."""
    letters = []
    selections: dict[str, Selection | None] = {}
    for row in await tx.fetch("dead", id=backfill_id, limit=limit):
        owner, job, digest, index, first, last, attempts, lost, processed, holes, *rest = row
        if digest not in selections:
            selections[digest] = await selection_if_readable(tx, digest)
        positions = missing_of_row((first, last, processed, holes))
        selected = selections[digest]
        partitions = tuple(selected.describe(positions)) if selected else ("unreadable",)
        letters.append(DeadLetter(owner, job, index, positions, partitions, attempts, lost, *rest))
    return letters


async def events(tx: Transaction, backfill_id: str) -> AsyncIterator[tuple[AnyEvent, Row]]:
    """Every event of a backfill in order, with its row `(seq, type, id, payload, actor, at)`."""
    after = 0
    while rows := await tx.fetch("events", id=backfill_id, after=after, limit=PAGE):
        for row in rows:
            yield Codec.decode(row[1], row[2], row[3]), row
        after = rows[-1][0]


async def event_list(tx: Transaction, backfill_id: str) -> list[tuple[AnyEvent, Row]]:
    return [found async for found in events(tx, backfill_id)]


async def chunk_facts(tx: Transaction, backfill_id: str) -> list[ChunkFacts]:
    return [
        ChunkFacts(index, first, last, attempts, lost, Status(ended) if ended else None)
        for index, first, last, attempts, lost, ended in await tx.fetch(
            "chunk_facts", id=backfill_id
        )
    ]


def _backfill(row: Sequence[Any]) -> Backfill:
    (
        id,  # noqa: A001
        job,
        job_version,
        spec,
        selector,
        digest,
        partitions,
        chunk_size,
        total,
        planned,
        max_concurrent_runs,
        queue,
        run_order,
        retry,
        lease_seconds,
        timeout,
        state,
        state_version,
        stopping,
        parent_backfill_id,
        retry_request_id,
        group,
        drift,
        error,
        created_at,
        started_at,
        ended_at,
        running,
        failed,
        complete,
        abandoned,
        cancelled,
        now,
    ) = row
    pending = planned - running - failed - complete - abandoned - cancelled  # maybe a million
    problems: list[str] = []

    def readable(otherwise: T, read: Callable[..., T], *arguments: Any) -> T:
        try:
            return read(id, *arguments)
        except Unreadable as error:
            problems.append(str(error))
            return otherwise

    form = readable(ExplicitSummary([], partitions), decoded, "selector", selector, Summary)
    return Backfill(
        id,
        job,
        job_version,
        readable({}, decoded, "spec", spec, dict[str, Any]),
        msgspec.to_builtins(form),
        digest,
        partitions,
        chunk_size,
        max_concurrent_runs,
        queue,
        readable(Order.OLDEST, order_of, run_order),
        readable(RetryPolicy(), decoded, "retry policy", retry, RetryPolicy),
        lease_seconds,
        timeout,
        lifecycle_from_row(id, state, state_version, stopping),
        parent_backfill_id,
        retry_request_id,
        group,
        drift,
        error,
        created_at,
        started_at,
        ended_at,
        ChunkCounts(total, planned, pending, running, complete, failed, abandoned, cancelled),
        now,
        "; ".join(problems) or None,
    )


def _chunk(row: Sequence[Any]) -> ChunkRow:
    index, rank, first, last, status, attempts, lost, fence, owner, due, done, holes, *error = row
    return ChunkRow(
        index,
        rank,
        Span(first, last),
        Status(status),
        Tries(attempts, lost),
        fence,
        owner,
        due,
        Progress(done, decode_holes(holes)),
        *error,
    )
