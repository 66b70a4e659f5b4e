-- Reading: no statement here takes locks, or counts more rows than it needs to.
-- `claims.sql` explains the form of the conditions.

-- part: counted_backfill
@b.StoredBackfill,
       (SELECT count(*) FROM (SELECT FROM gapless.chunks c
                              WHERE c.backfill_id = b.id AND c.status = 'RUNNING'
                              ORDER BY c.due) AS r) AS running,
       (SELECT count(*) FROM (SELECT FROM gapless.chunks c
                              WHERE c.backfill_id = b.id AND c.status = 'FAILED'
                              ORDER BY c.due) AS f) AS failed,
       coalesce((SELECT sum(n.complete) FROM gapless.counts n WHERE n.backfill_id = b.id), 0)::bigint
         AS complete,
       coalesce((SELECT sum(n.abandoned) FROM gapless.counts n WHERE n.backfill_id = b.id), 0)::bigint
         AS abandoned,
       coalesce((SELECT sum(n.cancelled) FROM gapless.counts n WHERE n.backfill_id = b.id), 0)::bigint
         AS cancelled,
       @queue_paused AS queue_paused,
       @now AS now

-- name: backfill
SELECT @counted_backfill
FROM gapless.backfills b
WHERE b.id = :id

-- name: backfills
SELECT @counted_backfill
FROM gapless.backfills b
WHERE (:state::text IS NULL OR b.state = :state)
  AND (:follow::text IS NULL OR b.follow = :follow)
  AND (:without::text IS NULL OR b.state = 'FAILED'
       OR substr(b.id, 1, length(:without)) <> :without)
ORDER BY b.created_at DESC, b.id DESC
LIMIT :limit

-- name: chunk_page
SELECT @StoredChunk
FROM gapless.chunks
WHERE backfill_id = :id AND chunk_index >= :low AND chunk_index <= :high
ORDER BY chunk_index
LIMIT :limit

-- name: chunks_running_page
SELECT @StoredChunk
FROM gapless.chunks
WHERE backfill_id = :id AND status = 'RUNNING'
ORDER BY due
LIMIT :limit

-- name: chunks_failed_page
SELECT @StoredChunk
FROM gapless.chunks
WHERE backfill_id = :id AND status = 'FAILED'
ORDER BY due
LIMIT :limit

-- name: chunks_pending_page
SELECT @StoredChunk
FROM gapless.chunks
WHERE backfill_id = :id AND status = 'PENDING'
ORDER BY rank
LIMIT :limit

-- name: chunks_abandoned_page
SELECT @StoredChunk
FROM gapless.chunks
WHERE backfill_id = :id AND status = 'ABANDONED'
ORDER BY chunk_index
LIMIT :limit

-- name: chunks_done_page
-- Complete or cancelled chunks: they are the majority and have no index.
SELECT @StoredChunk
FROM gapless.chunks
WHERE backfill_id = :id AND status = :status
ORDER BY chunk_index
LIMIT :limit

-- name: attempts
SELECT @Attempt
FROM gapless.attempts
WHERE backfill_id = :id AND chunk_index = :chunk_index
ORDER BY fence

-- name: dead
SELECT @c.DeadChunk, b.job, b.selection
FROM gapless.chunks c
JOIN gapless.backfills b ON b.id = c.backfill_id
WHERE c.status = 'ABANDONED' AND c.purged_at IS NULL
  AND (:id::text IS NULL OR c.backfill_id = :id)
ORDER BY c.backfill_id, c.chunk_index
LIMIT :limit

-- name: events
SELECT @StoredEvent
FROM gapless.events
WHERE backfill_id = :id AND seq > :after
ORDER BY seq
LIMIT :limit

-- name: chunk_facts
SELECT chunk_index, first, last, attempts, lost,
       CASE WHEN status IN ('COMPLETE', 'ABANDONED', 'CANCELLED') THEN status END AS ended
FROM gapless.chunks
WHERE backfill_id = :id
ORDER BY chunk_index

-- name: counted
-- Ended chunks by status, counted row by row, to be compared with the counters.
SELECT count(*) FILTER (WHERE status = 'COMPLETE') AS complete,
       count(*) FILTER (WHERE status = 'ABANDONED') AS abandoned,
       count(*) FILTER (WHERE status = 'CANCELLED') AS cancelled
FROM gapless.chunks
WHERE backfill_id = :id

-- name: compactable
SELECT id FROM gapless.backfills b
WHERE state IN ('SUCCEEDED', 'FAILED', 'CANCELLED')
  AND NOT EXISTS (SELECT 1 FROM gapless.events e
                  WHERE e.idempotency_key = @compacted_key)
ORDER BY created_at

-- name: drop_chunk_events
DELETE FROM gapless.events
WHERE backfill_id = :id AND type IN (@chunk_events)
RETURNING seq

-- name: drop_attempts
-- Deletes the records of failed runs, except those of dead letters.
DELETE FROM gapless.attempts
WHERE backfill_id = :id
  AND chunk_index NOT IN (SELECT chunk_index FROM gapless.chunks
                          WHERE backfill_id = :id AND status = 'ABANDONED' AND purged_at IS NULL)
