-- Following a chain's head: who leads a follow, what its leader appends, and what it deletes.
-- `claims.sql` explains the form of the conditions.

-- name: add_cursor
INSERT INTO gapless.cursors (follow, backfill_id, fence, version, state, updated_at)
VALUES (:follow, :id, 0, 0, :state, @now)
ON CONFLICT DO NOTHING

-- name: remove_cursor
DELETE FROM cursors WHERE follow = :follow

-- name: cursor
SELECT @StoredCursor, @now AS now FROM gapless.cursors WHERE follow = :follow

-- name: cursors
SELECT @StoredCursor, @now AS now FROM gapless.cursors ORDER BY follow

-- name: lock_cursor
SELECT @StoredCursor, @now AS now FROM gapless.cursors WHERE follow = :follow FOR UPDATE

-- name: renew_lead
UPDATE gapless.cursors SET lease_until = @now + :lease::float8
WHERE follow = :follow
RETURNING @StoredCursor, @now AS now

-- name: take_lead
UPDATE gapless.cursors
SET owner = :owner, lease_until = @now + :lease::float8, fence = nextval('gapless.fence')
WHERE follow = :follow
RETURNING @StoredCursor, @now AS now

-- name: note_head
UPDATE gapless.cursors
SET head_seen_at = coalesce(@now - :ago::float8, head_seen_at),
    head_time = coalesce(:time::float8, head_time), trouble = :trouble
WHERE follow = :follow
RETURNING @StoredCursor, @now AS now

-- name: resign
UPDATE gapless.cursors SET owner = NULL, lease_until = NULL
WHERE follow = :follow AND owner = :owner

-- name: depose
UPDATE gapless.cursors SET owner = NULL, lease_until = NULL WHERE follow = :follow

-- name: change_backfill
UPDATE gapless.backfills SET spec = :spec, queue = :queue WHERE id = :id

-- name: advance_cursor
-- Only for the leader who has seen the latest version.
UPDATE gapless.cursors SET version = version + 1, state = :state, updated_at = @now
WHERE follow = :follow AND owner = :owner AND fence = :fence AND version = :version
RETURNING @StoredCursor, @now AS now

-- name: draw_fence
-- For a transaction that has changed a cursor: see `stop_claims`.
SELECT nextval('gapless.fence')

-- name: revoke
-- Cancels the unfinished chunks of a locked backfill that overlap the heights. Their rows are locked
-- in the order of their indices, as all who lock several do.
WITH unfinished AS MATERIALIZED (
    (SELECT c.chunk_index FROM gapless.chunks c
     WHERE c.backfill_id = :id AND c.status = 'PENDING'
       AND c.first <= :last::bigint AND c.last >= :first::bigint
     ORDER BY c.rank)
    UNION ALL
    (SELECT c.chunk_index FROM gapless.chunks c
     WHERE c.backfill_id = :id AND c.status = 'FAILED'
       AND c.first <= :last::bigint AND c.last >= :first::bigint
     ORDER BY c.due)
    UNION ALL
    (SELECT c.chunk_index FROM gapless.chunks c
     WHERE c.backfill_id = :id AND c.status = 'RUNNING'
       AND c.first <= :last::bigint AND c.last >= :first::bigint
     ORDER BY c.due)
), locked AS MATERIALIZED (
    SELECT c.chunk_index
    FROM (SELECT chunk_index FROM unfinished ORDER BY chunk_index) AS u, gapless.chunks c
    WHERE (c.backfill_id, c.chunk_index) BETWEEN (:id, u.chunk_index) AND (:id, u.chunk_index)
      AND c.status || '' IN ('PENDING', 'FAILED', 'RUNNING')
    FOR UPDATE OF c)
UPDATE gapless.chunks c SET status = 'CANCELLED', due = NULL, ended_at = @now
FROM locked
WHERE (c.backfill_id, c.chunk_index) BETWEEN (:id, locked.chunk_index) AND (:id, locked.chunk_index)
RETURNING c.chunk_index

-- name: append_chunks
INSERT INTO gapless.chunks (backfill_id, @AppendedChunk, status, planned_at)
SELECT :id, @AppendedChunk, 'PENDING', @now
FROM (@AppendedChunk(items)) AS item

-- name: grow
UPDATE gapless.backfills
SET partitions = partitions + :partitions, chunk_total = chunk_total + :chunks,
    planned = planned + :chunks
WHERE id = :id

-- name: delete_dead
DELETE FROM gapless.chunks c
USING json_array_elements_text(:indices::json) AS wanted(index)
WHERE (c.backfill_id, c.chunk_index) BETWEEN (:id, wanted.index::bigint)
                                         AND (:id, wanted.index::bigint)
  AND c.status || '' = 'ABANDONED'
RETURNING @c.DeletedChunk

-- name: delete_ended
-- Chunks of a standing backfill that need no attention any more. It has few rows, because those
-- that this deletes are the only ones that could become many.
WITH over AS MATERIALIZED (
    SELECT chunk_index FROM gapless.chunks
    WHERE backfill_id = :id AND status || '' IN ('COMPLETE', 'CANCELLED') AND last < :below
    ORDER BY chunk_index LIMIT :limit)
DELETE FROM gapless.chunks c
USING over
WHERE (c.backfill_id, c.chunk_index) BETWEEN (:id, over.chunk_index) AND (:id, over.chunk_index)
RETURNING @c.DeletedChunk

-- name: delete_chunks
WITH oldest AS MATERIALIZED (
    SELECT chunk_index FROM gapless.chunks
    WHERE backfill_id = :id
    ORDER BY chunk_index LIMIT :limit)
DELETE FROM gapless.chunks c
USING oldest
WHERE (c.backfill_id, c.chunk_index) BETWEEN (:id, oldest.chunk_index) AND (:id, oldest.chunk_index)
RETURNING @c.DeletedChunk

-- name: delete_events_of
-- The events of these chunks. Every event of the backfill is read, which must have few.
DELETE FROM gapless.events
WHERE backfill_id = :id AND type IN (@chunk_events)
  AND @event_chunk = ANY (ARRAY(SELECT wanted.index::bigint
                                FROM json_array_elements_text(:indices::json) AS wanted(index)))
RETURNING type

-- name: delete_attempts_of
DELETE FROM gapless.attempts a
USING json_array_elements_text(:indices::json) AS wanted(index)
WHERE a.backfill_id = :id AND a.chunk_index = wanted.index::bigint

-- name: delete_oldest_events
-- All but the one that says that the backfill is being deleted.
WITH oldest AS MATERIALIZED (
    SELECT e.seq FROM gapless.backfills b, gapless.events e
    WHERE b.id = :id AND e.backfill_id = :id AND e.idempotency_key <> @folded_key
    ORDER BY e.seq LIMIT :limit)
DELETE FROM gapless.events e
USING oldest
WHERE e.backfill_id = :id AND e.seq = oldest.seq
RETURNING e.seq

-- name: replace_event
INSERT INTO gapless.events (@NewEvent, actor, at)
SELECT @NewEvent, :actor, @now
FROM (@NewEvent(items)) AS item
ON CONFLICT (idempotency_key) DO UPDATE
SET payload = excluded.payload, actor = excluded.actor, at = excluded.at

-- name: count_folded
INSERT INTO gapless.counts AS n (backfill_id, shard, folded_complete, folded_abandoned,
                                 folded_cancelled, folded_backfills, folded_failed_runs,
                                 folded_purged)
VALUES (:id, :shard, :complete, :abandoned, :cancelled, :backfills, :failed_runs, :purged)
ON CONFLICT (backfill_id, shard) DO UPDATE
SET folded_complete = n.folded_complete + excluded.folded_complete,
    folded_abandoned = n.folded_abandoned + excluded.folded_abandoned,
    folded_cancelled = n.folded_cancelled + excluded.folded_cancelled,
    folded_backfills = n.folded_backfills + excluded.folded_backfills,
    folded_failed_runs = n.folded_failed_runs + excluded.folded_failed_runs,
    folded_purged = n.folded_purged + excluded.folded_purged

-- name: folded
SELECT coalesce(sum(folded_complete), 0)::bigint AS complete,
       coalesce(sum(folded_abandoned), 0)::bigint AS abandoned,
       coalesce(sum(folded_cancelled), 0)::bigint AS cancelled,
       coalesce(sum(folded_backfills), 0)::bigint AS backfills,
       coalesce(sum(folded_failed_runs), 0)::bigint AS failed_runs,
       coalesce(sum(folded_purged), 0)::bigint AS purged
FROM gapless.counts
WHERE backfill_id = :id

-- name: foldable
-- An ended backfill of a follow that nobody has to look at any more. A parent that failed can be
-- retried again, and then its children show what was retried before.
SELECT @b.FoldableBackfill
FROM gapless.backfills b
WHERE b.follow = :follow AND NOT b.standing AND b.state IN ('SUCCEEDED', 'CANCELLED')
  AND (:only::text IS NULL OR b.id = :only)
  AND NOT EXISTS (SELECT 1 FROM gapless.backfills child WHERE child.parent_backfill_id = b.id)
  AND NOT EXISTS (SELECT 1 FROM gapless.backfills parent
                  WHERE parent.id = b.parent_backfill_id AND parent.state = 'FAILED')
  AND (SELECT c.chunk_index FROM gapless.chunks c
       WHERE c.backfill_id = b.id AND c.status = 'ABANDONED' AND c.purged_at IS NULL
       ORDER BY c.chunk_index LIMIT 1) IS NULL
ORDER BY b.precedence, b.id
LIMIT 1

-- name: has_folded
SELECT 1 FROM gapless.backfills b JOIN gapless.events e ON e.idempotency_key = @folded_key
WHERE b.id = :id

-- name: keep_queue_totals
-- The counters of a backfill that is about to be deleted stay in those of its queue.
INSERT INTO gapless.folded_queues AS q (name, processed, failed)
SELECT b.queue, coalesce(sum(n.complete), 0), coalesce(sum(n.failed_runs), 0)
FROM gapless.backfills b
LEFT JOIN gapless.counts n ON n.backfill_id = b.id
WHERE b.id = :id
GROUP BY b.queue
ON CONFLICT (name) DO UPDATE SET processed = q.processed + excluded.processed,
                                 failed = q.failed + excluded.failed

-- name: delete_backfill
-- A backfill without chunks, with all that is left of it.
WITH its_events AS (DELETE FROM gapless.events WHERE backfill_id = :id),
     its_attempts AS (DELETE FROM gapless.attempts WHERE backfill_id = :id),
     its_counts AS (DELETE FROM gapless.counts WHERE backfill_id = :id)
DELETE FROM gapless.backfills WHERE id = :id

-- name: lock_selection
-- Whoever creates a backfill with this selection has locked its row until the commit.
SELECT 1 FROM gapless.selections WHERE hash = :hash FOR UPDATE

-- name: delete_selection
DELETE FROM gapless.selections
WHERE hash = :hash AND NOT EXISTS (SELECT 1 FROM gapless.backfills WHERE selection = :hash)
