-- Creating, commanding and ending backfills.

-- name: append_events
INSERT INTO gapless.events (@NewEvent, actor, at)
SELECT @NewEvent, :actor, @now
FROM (@NewEvent(items)) AS item
ORDER BY ordinality
ON CONFLICT DO NOTHING
RETURNING idempotency_key

-- name: add_selection
-- A row with this hash is equal already, unless it was damaged.
INSERT INTO gapless.selections AS s (hash, data) VALUES (:hash, :data)
ON CONFLICT (hash) DO UPDATE SET data = excluded.data WHERE s.data <> excluded.data

-- name: selection
SELECT data FROM gapless.selections WHERE hash = :hash

-- name: add_backfill
INSERT INTO gapless.backfills (@NewBackfill, created_at)
VALUES (@:NewBackfill, @now)
ON CONFLICT DO NOTHING
RETURNING id

-- name: lock_backfill
SELECT @LifecycleRow FROM gapless.backfills WHERE id = :id FOR NO KEY UPDATE

-- name: open_work
-- The open work of a locked backfill.
SELECT (SELECT count(*) FROM (SELECT FROM gapless.chunks c
                              WHERE c.backfill_id = b.id AND c.status = 'RUNNING'
                              ORDER BY c.due) AS r) AS running,
       (SELECT c.rank FROM gapless.chunks c
        WHERE c.backfill_id = b.id AND c.status = 'PENDING'
        ORDER BY c.rank LIMIT 1) IS NOT NULL
       OR (SELECT c.due FROM gapless.chunks c
           WHERE c.backfill_id = b.id AND c.status = 'FAILED'
           ORDER BY c.due LIMIT 1) IS NOT NULL AS waiting,
       b.chunk_total - b.planned AS unplanned,
       coalesce((SELECT sum(n.abandoned) FROM gapless.counts n WHERE n.backfill_id = b.id), 0)::bigint
         AS abandoned,
       b.standing
FROM gapless.backfills b
WHERE b.id = :id

-- name: set_lifecycle
UPDATE gapless.backfills
SET state = :state::text, state_version = :state_version, stopping = :stopping,
    started_at = coalesce(started_at, CASE :state WHEN 'RUNNING' THEN @now END),
    ended_at = CASE WHEN :state IN ('SUCCEEDED', 'FAILED', 'CANCELLED') THEN @now END,
    error = coalesce(error, :error)
WHERE id = :id

-- name: sweep_pending
UPDATE gapless.chunks SET status = 'CANCELLED', ended_at = @now
WHERE backfill_id = :id AND status = 'PENDING'
RETURNING chunk_index

-- name: sweep_failed
UPDATE gapless.chunks SET status = 'CANCELLED', due = NULL, ended_at = @now
WHERE backfill_id = :id AND status = 'FAILED'
RETURNING chunk_index

-- name: sweep_running
-- Cancels running chunks whose lease has ended, unless a job's transaction has locked their row.
WITH over AS MATERIALIZED (
    SELECT c.chunk_index FROM gapless.chunks c
    WHERE c.backfill_id = :id AND c.status = 'RUNNING'
      AND NOT (c.due > @now AND c.due <= @now + 1 + (SELECT b.lease_seconds FROM gapless.backfills b
                                                     WHERE b.id = :id))
    ORDER BY c.due
    FOR UPDATE SKIP LOCKED)
UPDATE gapless.chunks c SET status = 'CANCELLED', due = NULL, ended_at = @now
FROM over
WHERE (c.backfill_id, c.chunk_index) BETWEEN (:id, over.chunk_index) AND (:id, over.chunk_index)
RETURNING c.chunk_index

-- name: sweep_by_force
-- Cancels all running chunks, and waits for transactions of jobs if necessary.
UPDATE gapless.chunks SET status = 'CANCELLED', due = NULL, ended_at = @now
WHERE backfill_id = :id AND status = 'RUNNING'
RETURNING chunk_index

-- name: hasten
-- Lets failed chunks be claimed again at once.
UPDATE gapless.chunks SET due = @now
WHERE backfill_id = :id AND status = 'FAILED' AND due > @now
RETURNING chunk_index

-- name: count_cancelled
INSERT INTO gapless.counts AS n (backfill_id, shard, cancelled) VALUES (:id, :shard, :cancelled)
ON CONFLICT (backfill_id, shard) DO UPDATE SET cancelled = n.cancelled + excluded.cancelled

-- name: unsettled
-- Backfills with nothing left to do that have not ended.
SELECT b.id
FROM gapless.backfills b
WHERE b.state IN ('PENDING', 'RUNNING', 'PAUSED')
  AND (:ids::json IS NULL OR b.id IN (SELECT json_array_elements_text(:ids)))
  AND CASE
      WHEN b.stopping = 'cancel' THEN true
      WHEN b.state <> 'RUNNING' THEN false
      WHEN b.stopping = 'halt' THEN true
      WHEN b.standing THEN false
      ELSE b.planned = b.chunk_total
           AND NOT EXISTS (SELECT 1 FROM gapless.chunks c
                           WHERE c.backfill_id = b.id AND c.status = 'PENDING')
           AND NOT EXISTS (SELECT 1 FROM gapless.chunks c
                           WHERE c.backfill_id = b.id AND c.status = 'FAILED')
      END
  AND NOT EXISTS (SELECT 1 FROM gapless.chunks c
                  WHERE c.backfill_id = b.id AND c.status = 'RUNNING'
                    AND c.due > @now AND c.due <= @now + b.lease_seconds + 1)

-- name: first_error
-- The first dead letter, by rank.
SELECT @DeadChunk
FROM gapless.chunks
WHERE backfill_id = :id AND status = 'ABANDONED'
ORDER BY rank LIMIT 1

-- name: retry_child
SELECT id FROM gapless.backfills
WHERE parent_backfill_id = :parent AND retry_request_id = :request_id

-- name: dead_children
-- The selections of earlier retries of dead letters of this parent.
SELECT selection FROM gapless.backfills
WHERE parent_backfill_id = :parent AND retry_request_id LIKE 'dead:%'

-- name: incomplete
SELECT @ChunkProgress
FROM gapless.chunks
WHERE backfill_id = :id AND status <> 'COMPLETE'

-- name: add_group
INSERT INTO gapless.groups (name, hook, changed_at, quiet_seconds)
VALUES (:name, :hook, @now, :quiet_seconds)
ON CONFLICT (name) DO UPDATE
SET hook = excluded.hook, changed_at = excluded.changed_at, quiet_seconds = excluded.quiet_seconds

-- name: lock_group
SELECT @Group FROM gapless.groups WHERE name = :name FOR UPDATE

-- name: drained
-- Groups without a pending or running chunk in which something completed since the last epoch; without
-- `hurry`, only those that have been quiet for long enough. If the clock jumped back, none waits.
SELECT g.name,
       (SELECT coalesce(sum(n.complete), 0)::bigint
        FROM gapless.backfills b JOIN gapless.counts n ON n.backfill_id = b.id
        WHERE b.group_name = g.name) AS completed
FROM gapless.groups g
WHERE (:names::json IS NULL OR g.name IN (SELECT json_array_elements_text(:names)))
  AND (:hurry::bool OR @now >= g.changed_at + g.quiet_seconds OR @now < g.changed_at)
  AND CASE
      WHEN EXISTS (
          SELECT 1 FROM gapless.backfills b
          WHERE b.group_name = g.name AND b.state IN ('PENDING', 'RUNNING', 'PAUSED')
            AND ((b.stopping IS NULL AND b.planned < b.chunk_total)
                 OR EXISTS (SELECT 1 FROM gapless.chunks c
                            WHERE c.backfill_id = b.id AND c.status = 'PENDING')
                 OR EXISTS (SELECT 1 FROM gapless.chunks c
                            WHERE c.backfill_id = b.id AND c.status = 'RUNNING')))
      THEN false
      ELSE (SELECT coalesce(sum(n.complete), 0)
            FROM gapless.backfills b JOIN gapless.counts n ON n.backfill_id = b.id
            WHERE b.group_name = g.name) > g.completed_seen
      END

-- name: next_epoch
UPDATE gapless.groups SET epoch = epoch + 1, completed_seen = :completed WHERE name = :name
RETURNING epoch

-- name: request_epochs
-- Lets the hooks of these groups run once more, although nothing of them has completed.
UPDATE gapless.groups SET completed_seen = -1, changed_at = @now
WHERE name IN (SELECT json_array_elements_text(:names::json))

-- name: note_drift
UPDATE gapless.backfills SET drift = :drift WHERE id = :id AND drift IS DISTINCT FROM :drift

-- name: purge_all_dead
UPDATE gapless.chunks SET purged_at = @now
WHERE status = 'ABANDONED' AND purged_at IS NULL AND backfill_id = :id
RETURNING chunk_index

-- name: purge_dead
UPDATE gapless.chunks c SET purged_at = @now
FROM json_array_elements_text(:indices::json) AS wanted(index)
WHERE (c.backfill_id, c.chunk_index) BETWEEN (:id, wanted.index::bigint)
                                         AND (:id, wanted.index::bigint)
  AND c.status || '' = 'ABANDONED' AND c.purged_at IS NULL
RETURNING c.chunk_index
