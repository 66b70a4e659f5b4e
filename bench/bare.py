"""The bare SQL that the ledger is compared with.

Same driver, tables, indexes and durability; a claim is one `UPDATE … RETURNING` with a new fence, a
completion is one fenced `UPDATE`. Nothing chooses a backfill, enforces a limit, recovers, retries
or plans: all chunks exist beforehand, and the server's statistics are up to date. *With events*, a
completion also writes its event and its counter, as the ledger must.
"""

from __future__ import annotations

import uuid
from typing import Any, Protocol

import apsw
import asyncpg
import msgspec

from bench.places import Place

BACKFILL = "bf_bare"


class Bare(Protocol):
    async def claim_and_complete(self, count: int) -> int: ...

    async def close(self) -> None: ...


async def open_bare(place: Place, url: str, chunks: int, *, events: bool) -> Bare:
    """Bare SQL on a new ledger's tables, with this many chunks to claim."""
    await place.script(url, PLAN[place.name].format(chunks=chunks, id=BACKFILL))
    if place.name == "sqlite":
        return BareSqlite(url, events=events)
    await place.script(url, "ANALYZE")
    return await BarePostgres.open(url, events=events)


PLAN = {
    "sqlite": """
INSERT INTO chunks (backfill_id, chunk_index, rank, first, last, status, planned_at)
WITH RECURSIVE i(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM i WHERE n < {chunks} - 1)
SELECT '{id}', n, n, n * 100, n * 100 + 99, 'PENDING', unixepoch('subsec') FROM i
""",
    "postgres": """
INSERT INTO chunks (backfill_id, chunk_index, rank, first, last, status, planned_at)
SELECT '{id}', n, n, n * 100, n * 100 + 99, 'PENDING', extract(epoch FROM statement_timestamp())
FROM generate_series(0, {chunks} - 1) AS n
""",
}


class BareSqlite:
    CLAIM = """
UPDATE chunks
SET status = 'RUNNING', owner = 'bare', claim_id = :claim_id, due = unixepoch('subsec') + 60,
    fence = coalesce(fence, 0) + 1, started_at = unixepoch('subsec')
WHERE backfill_id = :id AND chunk_index IN (
    SELECT chunk_index FROM chunks INDEXED BY chunks_pending
    WHERE backfill_id = :id AND status = 'PENDING' ORDER BY rank LIMIT :k)
RETURNING chunk_index, rank, first, last, fence, attempts, lost, last_processed,
          last_failure_position, holes
"""
    COMPLETE = """
WITH item AS MATERIALIZED (
    SELECT value ->> 0 AS chunk_index, value ->> 1 AS fence FROM json_each(:items))
UPDATE chunks
SET status = 'COMPLETE', last_processed = last, due = NULL, ended_at = unixepoch('subsec')
FROM item
WHERE chunks.backfill_id = :id AND chunks.chunk_index = item.chunk_index
  AND chunks.status = 'RUNNING' AND chunks.fence = item.fence AND chunks.claim_id = :claim_id
"""
    INSERT_EVENTS = """
INSERT INTO events (idempotency_key, backfill_id, type, payload, actor, at)
SELECT 'chunk_ended:' || :id || ':' || (value ->> 0), :id, 'ChunkEnded',
       '{"chunk_index":' || (value ->> 0) || ',"status":"COMPLETE"}', 'bare', unixepoch('subsec')
FROM json_each(:items)
"""
    COUNT = """
INSERT INTO counts (backfill_id, shard, complete) SELECT :id, 0, changes()
ON CONFLICT DO UPDATE SET complete = complete + excluded.complete
"""

    def __init__(self, url: str, *, events: bool) -> None:
        self._connection = apsw.Connection(url.removeprefix("sqlite:///"))
        self._connection.execute("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL")
        self._connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
        self._completion = (
            (self.COMPLETE, self.INSERT_EVENTS, self.COUNT) if events else (self.COMPLETE,)
        )

    async def claim_and_complete(self, count: int) -> int:
        claim_id = uuid.uuid4().hex
        (rows,) = self._transact([self.CLAIM], {"id": BACKFILL, "claim_id": claim_id, "k": count})
        items = msgspec.json.encode([(row[0], row[4]) for row in rows]).decode()
        self._transact(self._completion, {"id": BACKFILL, "claim_id": claim_id, "items": items})
        return len(rows)

    async def close(self) -> None:
        self._connection.close()

    def _transact(self, texts: Any, values: dict[str, Any]) -> list[list[Any]]:
        self._connection.execute("BEGIN IMMEDIATE")
        rows = [self._connection.execute(text, values).fetchall() for text in texts]
        self._connection.execute("COMMIT")
        return rows


class BarePostgres:
    CLAIM = """
WITH next AS MATERIALIZED (
    SELECT backfill_id, chunk_index FROM gapless.chunks
    WHERE backfill_id = $1 AND status = 'PENDING'
    ORDER BY rank LIMIT $2
    FOR UPDATE SKIP LOCKED)
UPDATE gapless.chunks c
SET status = 'RUNNING', owner = 'bare', claim_id = $3,
    due = extract(epoch FROM statement_timestamp())::float8 + 60, fence = coalesce(c.fence, 0) + 1,
    started_at = extract(epoch FROM statement_timestamp())::float8
FROM next
WHERE c.backfill_id = next.backfill_id AND c.chunk_index = next.chunk_index
RETURNING c.chunk_index, c.rank, c.first, c.last, c.fence, c.attempts, c.lost, c.last_processed,
          c.last_failure_position, c.holes
"""
    COMPLETE = """
UPDATE gapless.chunks c
SET status = 'COMPLETE', last_processed = c.last, due = NULL,
    ended_at = extract(epoch FROM statement_timestamp())::float8
FROM (SELECT $1::text AS id, * FROM unnest($2::bigint[], $3::bigint[]) AS u (i, f) OFFSET 0) AS item
WHERE c.backfill_id = item.id AND c.chunk_index = item.i AND c.status || '' = 'RUNNING'
  AND c.fence = item.f AND c.claim_id = $4
RETURNING c.chunk_index
"""
    COMPLETE_WITH_EVENTS = f"""
WITH ended AS ({COMPLETE}), stored_events AS (
    INSERT INTO gapless.events (idempotency_key, backfill_id, type, payload, actor, at)
    SELECT 'chunk_ended:' || $1 || ':' || chunk_index, $1, 'ChunkEnded',
           '{{"chunk_index":' || chunk_index || ',"status":"COMPLETE"}}', 'bare',
           extract(epoch FROM statement_timestamp())::float8
    FROM ended
), counted AS (
    INSERT INTO gapless.counts AS n (backfill_id, shard, complete)
    SELECT $1, 0, count(*) FROM ended
    ON CONFLICT (backfill_id, shard) DO UPDATE SET complete = n.complete + excluded.complete
)
SELECT chunk_index FROM ended
"""

    def __init__(self, connection: asyncpg.Connection, *, events: bool) -> None:
        self._connection = connection
        self._completion = self.COMPLETE_WITH_EVENTS if events else self.COMPLETE

    @classmethod
    async def open(cls, url: str, *, events: bool) -> BarePostgres:
        return cls(await asyncpg.connect(url), events=events)

    async def claim_and_complete(self, count: int) -> int:
        claim_id = uuid.uuid4().hex
        rows = await self._connection.fetch(self.CLAIM, BACKFILL, count, claim_id)
        indices, fences = [row[0] for row in rows], [row[4] for row in rows]
        await self._connection.fetch(self._completion, BACKFILL, indices, fences, claim_id)
        return len(rows)

    async def close(self) -> None:
        await self._connection.close()
