-- Following a chain's head: who leads a follow, what its leader appends, and what it deletes.

-- name: add_cursor
INSERT INTO cursors (follow, backfill_id, fence, version, state, updated_at)
VALUES (:follow, :id, 0, 0, :state, @now)
ON CONFLICT DO NOTHING

-- name: remove_cursor
DELETE FROM cursors WHERE follow = :follow

-- name: cursor
SELECT @StoredCursor, @now AS now FROM cursors WHERE follow = :follow

-- name: cursors
SELECT @StoredCursor, @now AS now FROM cursors ORDER BY follow

-- name: lock_cursor
SELECT @StoredCursor, @now AS now FROM cursors WHERE follow = :follow

-- name: renew_lead
UPDATE cursors SET lease_until = @now + :lease
WHERE follow = :follow
RETURNING @StoredCursor, @now AS now

-- name: take_lead
UPDATE cursors
SET owner = :owner, lease_until = @now + :lease, fence = (SELECT value + 1 FROM fence)
WHERE follow = :follow
RETURNING @StoredCursor, @now AS now;
UPDATE fence SET value = value + 1

-- name: note_head
UPDATE cursors
SET head_seen_at = coalesce(@now - :ago, head_seen_at), head_time = coalesce(:time, head_time),
    trouble = :trouble
WHERE follow = :follow
RETURNING @StoredCursor, @now AS now

-- name: resign
UPDATE cursors SET owner = NULL, lease_until = NULL WHERE follow = :follow AND owner = :owner

-- name: depose
UPDATE cursors SET owner = NULL, lease_until = NULL WHERE follow = :follow

-- name: change_backfill
UPDATE backfills SET spec = :spec, queue = :queue WHERE id = :id

-- name: advance_cursor
-- Only for the leader who has seen the latest version.
UPDATE cursors SET version = version + 1, state = :state, updated_at = @now
WHERE follow = :follow AND owner = :owner AND fence = :fence AND version = :version
RETURNING @StoredCursor, @now AS now

-- name: draw_fence
UPDATE fence SET value = value + 1 RETURNING value

-- name: revoke
-- Cancels the unfinished chunks of a locked backfill that overlap the heights.
UPDATE chunks SET status = 'CANCELLED', due = NULL, ended_at = @now
FROM (SELECT backfill_id, chunk_index FROM chunks INDEXED BY chunks_pending
      WHERE backfill_id = :id AND status = 'PENDING' AND first <= :last AND last >= :first
      UNION ALL
      SELECT backfill_id, chunk_index FROM chunks INDEXED BY chunks_failed
      WHERE backfill_id = :id AND status = 'FAILED' AND first <= :last AND last >= :first
      UNION ALL
      SELECT backfill_id, chunk_index FROM chunks INDEXED BY chunks_running
      WHERE backfill_id = :id AND status = 'RUNNING' AND first <= :last AND last >= :first)
     AS unfinished
WHERE chunks.backfill_id = unfinished.backfill_id
  AND chunks.chunk_index = unfinished.chunk_index
RETURNING chunk_index

-- name: append_chunks
INSERT INTO chunks (backfill_id, @AppendedChunk, status, planned_at)
SELECT :id, @AppendedChunk, 'PENDING', @now
FROM (@AppendedChunk(items)) AS item

-- name: grow
UPDATE backfills
SET partitions = partitions + :partitions, chunk_total = chunk_total + :chunks,
    planned = planned + :chunks
WHERE id = :id

-- name: delete_dead
DELETE FROM chunks
WHERE backfill_id = :id AND chunk_index IN (SELECT value FROM json_each(:indices))
  AND status = 'ABANDONED'
RETURNING @DeletedChunk

-- name: delete_ended
-- Chunks of a standing backfill that need no attention any more. It has few rows, because those
-- that this deletes are the only ones that could become many.
DELETE FROM chunks
WHERE (backfill_id, chunk_index) IN (
    SELECT backfill_id, chunk_index FROM chunks
    WHERE backfill_id = :id AND status IN ('COMPLETE', 'CANCELLED') AND last < :below
    ORDER BY chunk_index LIMIT :limit)
RETURNING @DeletedChunk

-- name: delete_chunks
DELETE FROM chunks
WHERE (backfill_id, chunk_index) IN (
    SELECT backfill_id, chunk_index FROM chunks
    WHERE backfill_id = :id
    ORDER BY chunk_index LIMIT :limit)
RETURNING @DeletedChunk

-- name: delete_events_of
-- The events of these chunks. Every event of the backfill is read, which must have few.
DELETE FROM events
WHERE backfill_id = :id AND type IN (@chunk_events)
  AND @event_chunk IN (SELECT value FROM json_each(:indices))
RETURNING type

-- name: delete_attempts_of
DELETE FROM attempts
WHERE backfill_id = :id AND chunk_index IN (SELECT value FROM json_each(:indices))

-- name: delete_oldest_events
-- All but the one that says that the backfill is being deleted.
DELETE FROM events
WHERE seq IN (SELECT e.seq FROM events e JOIN backfills b ON b.id = e.backfill_id
              WHERE e.backfill_id = :id AND e.idempotency_key <> @folded_key
              ORDER BY e.seq LIMIT :limit)
RETURNING seq

-- name: replace_event
INSERT INTO events (@NewEvent, actor, at)
SELECT @NewEvent, :actor, @now
FROM (@NewEvent(items)) AS item
WHERE true
ON CONFLICT (idempotency_key) DO UPDATE
SET payload = excluded.payload, actor = excluded.actor, at = excluded.at

-- name: count_folded
INSERT INTO counts (backfill_id, shard, folded_complete, folded_abandoned, folded_cancelled,
                    folded_backfills, folded_failed_runs, folded_purged)
VALUES (:id, :shard, :complete, :abandoned, :cancelled, :backfills, :failed_runs, :purged)
ON CONFLICT DO UPDATE SET folded_complete = folded_complete + excluded.folded_complete,
                          folded_abandoned = folded_abandoned + excluded.folded_abandoned,
                          folded_cancelled = folded_cancelled + excluded.folded_cancelled,
                          folded_backfills = folded_backfills + excluded.folded_backfills,
                          folded_failed_runs = folded_failed_runs + excluded.folded_failed_runs,
                          folded_purged = folded_purged + excluded.folded_purged

-- name: folded
SELECT coalesce(sum(folded_complete), 0) AS complete,
       coalesce(sum(folded_abandoned), 0) AS abandoned,
       coalesce(sum(folded_cancelled), 0) AS cancelled,
       coalesce(sum(folded_backfills), 0) AS backfills,
       coalesce(sum(folded_failed_runs), 0) AS failed_runs,
       coalesce(sum(folded_purged), 0) AS purged
FROM counts
WHERE backfill_id = :id

-- name: foldable
-- An ended backfill of a follow that nobody has to look at any more. A parent that failed can be
-- retried again, and then its children show what was retried before.
SELECT @b.FoldableBackfill
FROM backfills b INDEXED BY backfills_of_follow
WHERE b.follow = :follow AND NOT b.standing AND b.state IN ('SUCCEEDED', 'CANCELLED')
  AND (:only IS NULL OR b.id = :only)
  AND NOT EXISTS (SELECT 1 FROM backfills child WHERE child.parent_backfill_id = b.id)
  AND NOT EXISTS (SELECT 1 FROM backfills parent
                  WHERE parent.id = b.parent_backfill_id AND parent.state = 'FAILED')
  AND NOT EXISTS (SELECT 1 FROM chunks c INDEXED BY chunks_dead
                  WHERE c.backfill_id = b.id AND c.status = 'ABANDONED' AND c.purged_at IS NULL)
ORDER BY b.precedence, b.id
LIMIT 1

-- name: has_folded
SELECT 1 FROM backfills b JOIN events e ON e.idempotency_key = @folded_key
WHERE b.id = :id

-- name: keep_queue_totals
-- The counters of a backfill that is about to be deleted stay in those of its queue.
INSERT INTO folded_queues (name, processed, failed)
SELECT b.queue, coalesce(sum(n.complete), 0), coalesce(sum(n.failed_runs), 0)
FROM backfills b
LEFT JOIN counts n ON n.backfill_id = b.id
WHERE b.id = :id
GROUP BY b.queue
ON CONFLICT DO UPDATE SET processed = processed + excluded.processed,
                          failed = failed + excluded.failed

-- name: delete_backfill
-- A backfill without chunks, with all that is left of it.
DELETE FROM events WHERE backfill_id = :id;
DELETE FROM attempts WHERE backfill_id = :id;
DELETE FROM counts WHERE backfill_id = :id;
DELETE FROM backfills WHERE id = :id

-- name: lock_selection
-- The whole ledger is locked.
SELECT 1

-- name: delete_selection
DELETE FROM selections
WHERE hash = :hash AND NOT EXISTS (SELECT 1 FROM backfills WHERE selection = :hash)
