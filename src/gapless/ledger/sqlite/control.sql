-- Creating, commanding and ending backfills.

-- name: append_events
INSERT INTO events (@NewEvent, actor, at)
SELECT @NewEvent, :actor, @now
FROM (@NewEvent(items)) AS item
WHERE true
ON CONFLICT DO NOTHING
RETURNING idempotency_key

-- name: add_selection
-- A row with this hash is equal already, unless it was damaged.
INSERT INTO selections (hash, data) VALUES (:hash, :data)
ON CONFLICT (hash) DO UPDATE SET data = excluded.data WHERE data <> excluded.data

-- name: selection
SELECT data FROM selections WHERE hash = :hash

-- name: add_backfill
INSERT INTO backfills (@NewBackfill, created_at)
VALUES (@:NewBackfill, @now)
ON CONFLICT DO NOTHING
RETURNING id

-- name: lock_backfill
SELECT @LifecycleRow FROM backfills WHERE id = :id

-- name: open_work
-- The open work of a locked backfill.
SELECT (SELECT count(*) FROM chunks c INDEXED BY chunks_running
        WHERE c.backfill_id = b.id AND c.status = 'RUNNING') AS running,
       EXISTS (SELECT 1 FROM chunks c INDEXED BY chunks_pending
               WHERE c.backfill_id = b.id AND c.status = 'PENDING')
       OR EXISTS (SELECT 1 FROM chunks c INDEXED BY chunks_failed
                  WHERE c.backfill_id = b.id AND c.status = 'FAILED') AS waiting,
       b.chunk_total - b.planned AS unplanned,
       coalesce((SELECT sum(n.abandoned) FROM counts n WHERE n.backfill_id = b.id), 0) AS abandoned,
       b.standing
FROM backfills b
WHERE b.id = :id

-- name: set_lifecycle
UPDATE backfills
SET state = :state, state_version = :state_version, stopping = :stopping,
    started_at = coalesce(started_at, CASE :state WHEN 'RUNNING' THEN @now END),
    ended_at = CASE WHEN :state IN ('SUCCEEDED', 'FAILED', 'CANCELLED') THEN @now END,
    error = coalesce(error, :error)
WHERE id = :id

-- name: sweep_pending
UPDATE chunks SET status = 'CANCELLED', ended_at = @now
WHERE (backfill_id, chunk_index) IN (
    SELECT backfill_id, chunk_index FROM chunks INDEXED BY chunks_pending
    WHERE backfill_id = :id AND status = 'PENDING')
RETURNING chunk_index

-- name: sweep_failed
UPDATE chunks SET status = 'CANCELLED', due = NULL, ended_at = @now
WHERE (backfill_id, chunk_index) IN (
    SELECT backfill_id, chunk_index FROM chunks INDEXED BY chunks_failed
    WHERE backfill_id = :id AND status = 'FAILED')
RETURNING chunk_index

-- name: sweep_running
-- Cancels running chunks whose lease has ended.
UPDATE chunks SET status = 'CANCELLED', due = NULL, ended_at = @now
WHERE (backfill_id, chunk_index) IN (
    SELECT c.backfill_id, c.chunk_index
    FROM backfills b JOIN chunks c INDEXED BY chunks_running ON c.backfill_id = b.id
    WHERE b.id = :id AND c.status = 'RUNNING'
      AND NOT (c.due > @now AND c.due <= @now + b.lease_seconds + 1))
RETURNING chunk_index

-- name: sweep_by_force
-- Cancels all running chunks.
UPDATE chunks SET status = 'CANCELLED', due = NULL, ended_at = @now
WHERE (backfill_id, chunk_index) IN (
    SELECT backfill_id, chunk_index FROM chunks INDEXED BY chunks_running
    WHERE backfill_id = :id AND status = 'RUNNING')
RETURNING chunk_index

-- name: hasten
-- Lets failed chunks be claimed again at once.
UPDATE chunks SET due = @now
WHERE (backfill_id, chunk_index) IN (
    SELECT backfill_id, chunk_index FROM chunks INDEXED BY chunks_failed
    WHERE backfill_id = :id AND status = 'FAILED' AND due > @now)
RETURNING chunk_index

-- name: count_cancelled
INSERT INTO counts (backfill_id, shard, cancelled) VALUES (:id, :shard, :cancelled)
ON CONFLICT DO UPDATE SET cancelled = cancelled + excluded.cancelled

-- name: unsettled
-- Backfills with nothing left to do that have not ended.
SELECT b.id
FROM backfills b
WHERE b.state IN ('PENDING', 'RUNNING', 'PAUSED')
  AND (:ids IS NULL OR b.id IN (SELECT value FROM json_each(:ids)))
  AND CASE
      WHEN b.stopping = 'cancel' THEN true
      WHEN b.state <> 'RUNNING' THEN false
      WHEN b.stopping = 'halt' THEN true
      WHEN b.standing THEN false
      ELSE b.planned = b.chunk_total
           AND NOT EXISTS (SELECT 1 FROM chunks c INDEXED BY chunks_pending
                           WHERE c.backfill_id = b.id AND c.status = 'PENDING')
           AND NOT EXISTS (SELECT 1 FROM chunks c INDEXED BY chunks_failed
                           WHERE c.backfill_id = b.id AND c.status = 'FAILED')
      END
  AND NOT EXISTS (SELECT 1 FROM chunks c INDEXED BY chunks_running
                  WHERE c.backfill_id = b.id AND c.status = 'RUNNING'
                    AND c.due > @now AND c.due <= @now + b.lease_seconds + 1)

-- name: first_error
-- The first dead letter, by rank.
SELECT @DeadChunk
FROM chunks INDEXED BY chunks_dead
WHERE backfill_id = :id AND status = 'ABANDONED'
ORDER BY rank LIMIT 1

-- name: retry_child
SELECT id FROM backfills
WHERE parent_backfill_id = :parent AND retry_request_id = :request_id

-- name: dead_children
-- The selections of earlier retries of dead letters of this parent.
SELECT selection FROM backfills
WHERE parent_backfill_id = :parent AND retry_request_id LIKE 'dead:%'

-- name: incomplete
SELECT @ChunkProgress
FROM chunks
WHERE backfill_id = :id AND status <> 'COMPLETE'

-- name: add_group
INSERT INTO groups (name, hook, changed_at, quiet_seconds)
VALUES (:name, :hook, @now, :quiet_seconds)
ON CONFLICT (name) DO UPDATE
SET hook = excluded.hook, changed_at = excluded.changed_at, quiet_seconds = excluded.quiet_seconds

-- name: lock_group
SELECT @Group FROM groups WHERE name = :name

-- name: drained
-- Groups without a pending or running chunk in which something completed since the last epoch; without
-- `hurry`, only those that have been quiet for long enough. If the clock jumped back, none waits.
SELECT g.name,
       (SELECT coalesce(sum(n.complete), 0)
        FROM backfills b JOIN counts n ON n.backfill_id = b.id WHERE b.group_name = g.name)
         AS completed
FROM groups g
WHERE (:names IS NULL OR g.name IN (SELECT value FROM json_each(:names)))
  AND (:hurry OR @now >= g.changed_at + g.quiet_seconds OR @now < g.changed_at)
  AND CASE
      WHEN EXISTS (
          SELECT 1 FROM backfills b
          WHERE b.group_name = g.name AND b.state IN ('PENDING', 'RUNNING', 'PAUSED')
            AND ((b.stopping IS NULL AND b.planned < b.chunk_total)
                 OR EXISTS (SELECT 1 FROM chunks c INDEXED BY chunks_pending
                            WHERE c.backfill_id = b.id AND c.status = 'PENDING')
                 OR EXISTS (SELECT 1 FROM chunks c INDEXED BY chunks_running
                            WHERE c.backfill_id = b.id AND c.status = 'RUNNING')))
      THEN false
      ELSE (SELECT coalesce(sum(n.complete), 0)
            FROM backfills b JOIN counts n ON n.backfill_id = b.id
            WHERE b.group_name = g.name) > g.completed_seen
      END

-- name: next_epoch
UPDATE groups SET epoch = epoch + 1, completed_seen = :completed WHERE name = :name
RETURNING epoch

-- name: request_epochs
-- Lets the hooks of these groups run once more, although nothing of them has completed.
UPDATE groups SET completed_seen = -1, changed_at = @now
WHERE name IN (SELECT value FROM json_each(:names))

-- name: note_drift
UPDATE backfills SET drift = :drift WHERE id = :id AND drift IS NOT :drift

-- name: purge_all_dead
UPDATE chunks INDEXED BY chunks_dead SET purged_at = @now
WHERE status = 'ABANDONED' AND purged_at IS NULL AND backfill_id = :id
RETURNING chunk_index

-- name: purge_dead
UPDATE chunks INDEXED BY chunks_dead SET purged_at = @now
WHERE status = 'ABANDONED' AND purged_at IS NULL AND backfill_id = :id
  AND chunk_index IN (SELECT value FROM json_each(:indices))
RETURNING chunk_index
