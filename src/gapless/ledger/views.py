"""Reading a ledger: backfills, chunks, dead letters, cursors, events. Nothing here writes."""

from __future__ import annotations

import zlib
from collections.abc import AsyncIterator, Sequence

import msgspec

from gapless.core.chunk import Status
from gapless.core.errors import NotFound, Unreadable
from gapless.core.events import AnyEvent
from gapless.core.projection import ChunkFacts
from gapless.core.remedies import ListBackfills, ListFollows
from gapless.core.selector import Selection
from gapless.ledger.cursor import Cursor
from gapless.ledger.database import LedgerTransaction, one, one_as
from gapless.ledger.records import (
    RESERVED,
    Attempt,
    Backfill,
    ChunkRow,
    DeadLetter,
    FollowRecord,
)
from gapless.ledger.rows.backfill import CountedBackfill
from gapless.ledger.rows.chunk import DeadChunkOfJob, StoredChunk
from gapless.ledger.rows.event import StoredEvent
from gapless.ledger.rows.follow import TimedCursor

PAGE = 10_000
EVERYTHING = 2**53
_PAGES = {
    Status.RUNNING: "chunks_running_page",
    Status.FAILED: "chunks_failed_page",
    Status.PENDING: "chunks_pending_page",
    Status.ABANDONED: "chunks_abandoned_page",
}


async def backfill(tx: LedgerTransaction, backfill_id: str) -> Backfill:
    row = await one_as(tx, CountedBackfill, "backfill", id=backfill_id)
    if row is None:
        raise NotFound(f"there is no backfill `{backfill_id}`", remedy=ListBackfills())
    return row.backfill()


async def backfills(
    tx: LedgerTransaction,
    *,
    state: str | None = None,
    follow: str | None = None,
    hooks: bool = True,
    limit: int,
) -> list[Backfill]:
    """The newest backfills, in one state or all, of one follow or all.

    Without `hooks`, the hooks of groups are left out unless they have failed.
    """
    without = None if hooks else RESERVED
    wanted = {"state": state, "follow": follow, "without": without, "limit": limit}
    return [row.backfill() for row in await tx.fetch_as(CountedBackfill, "backfills", **wanted)]


async def selection(tx: LedgerTransaction, digest: str) -> Selection:
    row = await one(tx, "selection", hash=digest)
    return decoded(digest, None if row is None else row[0])


def decoded(digest: str, data: bytes | None) -> Selection:
    """The selection in a row, or in none; raises `Unreadable` if there is no sense in it."""
    try:
        if data is None:
            raise ValueError("it is not in the ledger")
        return Selection.decode(data)
    except (zlib.error, msgspec.MsgspecError, TypeError, ValueError) as error:
        raise Unreadable(f"the selection `{digest:.16}` cannot be read: {error}") from error


async def selection_if_readable(tx: LedgerTransaction, digest: str) -> Selection | None:
    try:
        return await selection(tx, digest)
    except Unreadable:
        return None


async def chunks(
    tx: LedgerTransaction, backfill_id: str, low: int = 0, high: int = EVERYTHING, limit: int = PAGE
) -> list[ChunkRow]:
    """Planned chunks by index."""
    page = {"low": low, "high": high, "limit": limit}
    rows = await tx.fetch_as(StoredChunk, "chunk_page", id=backfill_id, **page)
    return [row.chunk() for row in rows]


async def chunks_with(
    tx: LedgerTransaction, backfill_id: str, statuses: Sequence[Status], limit: int
) -> list[ChunkRow]:
    """Planned chunks of these statuses, one status after the other.

    Running ones are ordered by the end of their lease, failed ones by the time of their retry,
    pending ones by rank, all others by index.
    """
    found: list[ChunkRow] = []
    for status in statuses:
        page = _PAGES.get(status, "chunks_done_page")
        left = limit - len(found)
        rows = await tx.fetch_as(StoredChunk, page, id=backfill_id, status=status, limit=left)
        found += [row.chunk() for row in rows]
    return found


async def open_chunks(tx: LedgerTransaction, backfill_id: str, limit: int) -> list[ChunkRow]:
    """Chunks that have not ended: running, then failed by the time of their retry, then pending."""
    unended = (Status.RUNNING, Status.FAILED, Status.PENDING)
    return await chunks_with(tx, backfill_id, unended, limit)


async def attempts(tx: LedgerTransaction, backfill_id: str, chunk_index: int) -> list[Attempt]:
    """The latest failed runs of a chunk, the oldest first."""
    return await tx.fetch_as(Attempt, "attempts", id=backfill_id, chunk_index=chunk_index)


async def dead(
    tx: LedgerTransaction, backfill_id: str | None = None, limit: int = PAGE
) -> list[DeadLetter]:
    """Dead letters that nobody has purged or retried."""
    letters = []
    selections: dict[str, Selection | None] = {}
    for row in await tx.fetch_as(DeadChunkOfJob, "dead", id=backfill_id, limit=limit):
        if row.selection not in selections:
            selections[row.selection] = await selection_if_readable(tx, row.selection)
        letters.append(row.letter(selections[row.selection]))
    return letters


async def cursor(tx: LedgerTransaction, follow: str) -> Cursor:
    row = await one_as(tx, TimedCursor, "cursor", follow=follow)
    if row is None:
        raise NotFound(f"there is no follow `{follow}`", remedy=ListFollows())
    return row.cursor()


async def follows(tx: LedgerTransaction) -> list[tuple[Cursor, Backfill]]:
    """The cursors of all follows with their standing backfills, by name."""
    cursors = [row.cursor() for row in await tx.fetch_as(TimedCursor, "cursors")]
    return [(each, await backfill(tx, each.backfill_id)) for each in cursors]


async def follow(tx: LedgerTransaction, name: str, limit: int) -> FollowRecord:
    """Everything about a follow, with up to `limit` chunks of each kind."""
    found = await cursor(tx, name)
    standing = await backfill(tx, found.backfill_id)
    return FollowRecord(
        cursor=found,
        standing=standing,
        backfills=await backfills(tx, follow=name, limit=EVERYTHING),
        unended=await open_chunks(tx, standing.id, limit),
        dead=await chunks_with(tx, standing.id, [Status.ABANDONED], limit),
    )


async def events(
    tx: LedgerTransaction, backfill_id: str
) -> AsyncIterator[tuple[AnyEvent, StoredEvent]]:
    """Every event of a backfill in order, with its row."""
    wanted = {"id": backfill_id, "limit": PAGE}
    after = 0
    while rows := await tx.fetch_as(StoredEvent, "events", after=after, **wanted):
        for row in rows:
            yield row.event(), row
        after = rows[-1].seq


async def event_list(tx: LedgerTransaction, backfill_id: str) -> list[tuple[AnyEvent, StoredEvent]]:
    return [found async for found in events(tx, backfill_id)]


async def chunk_facts(tx: LedgerTransaction, backfill_id: str) -> list[ChunkFacts]:
    """What the table of chunks says about a backfill, to be compared with its events."""
    found = await tx.fetch_as(ChunkFacts, "chunk_facts", id=backfill_id)
    for chunk in found:
        chunk.ended = Status(chunk.ended) if chunk.ended else None
    return found
