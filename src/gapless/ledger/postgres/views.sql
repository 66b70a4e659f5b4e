-- Reading: no statement here locks or counts what it need not. `claims.sql` says why some of the
-- conditions are written as they are.

-- part: backfill_columns
b.id, b.job, b.job_version, b.spec, b.selector, b.selection, b.partitions, b.chunk_size,
       b.chunk_total, b.planned, b.max_concurrent_runs, b.queue, b.run_order, b.retry,
       b.lease_seconds, b.timeout, b.state, b.state_version, b.stopping, b.parent_backfill_id,
       b.retry_request_id, b.group_name, b.drift, b.error, b.created_at, b.started_at, b.ended_at,
       (SELECT count(*) FROM (SELECT FROM gapless.chunks c
                              WHERE c.backfill_id = b.id AND c.status = 'RUNNING'
                              ORDER BY c.due) AS running),
       (SELECT count(*) FROM (SELECT FROM gapless.chunks c
                              WHERE c.backfill_id = b.id AND c.status = 'FAILED'
                              ORDER BY c.due) AS failed),
       coalesce((SELECT sum(complete) FROM gapless.counts n WHERE n.backfill_id = b.id), 0)::bigint,
       coalesce((SELECT sum(abandoned) FROM gapless.counts n WHERE n.backfill_id = b.id), 0)::bigint,
       coalesce((SELECT sum(cancelled) FROM gapless.counts n WHERE n.backfill_id = b.id), 0)::bigint,
       @now

-- part: chunk_columns
chunk_index, rank, first, last, status, attempts, lost, fence, owner, due,
       last_processed, holes, error_class, error_message

-- name: backfill
SELECT @backfill_columns
FROM gapless.backfills b
WHERE b.id = :id

-- name: backfills
SELECT @backfill_columns
FROM gapless.backfills b
WHERE (:state::text IS NULL OR b.state = :state)
  AND (:without::text IS NULL OR b.state = 'FAILED'
       OR substr(b.id, 1, length(:without)) <> :without)
ORDER BY b.created_at DESC, b.id DESC
LIMIT :limit

-- name: chunk_page
SELECT @chunk_columns
FROM gapless.chunks
WHERE backfill_id = :id AND chunk_index >= :low AND chunk_index <= :high
ORDER BY chunk_index
LIMIT :limit

-- name: chunks_running_page
SELECT @chunk_columns
FROM gapless.chunks
WHERE backfill_id = :id AND status = 'RUNNING'
ORDER BY due
LIMIT :limit

-- name: chunks_failed_page
SELECT @chunk_columns
FROM gapless.chunks
WHERE backfill_id = :id AND status = 'FAILED'
ORDER BY due
LIMIT :limit

-- name: chunks_pending_page
SELECT @chunk_columns
FROM gapless.chunks
WHERE backfill_id = :id AND status = 'PENDING'
ORDER BY rank
LIMIT :limit

-- name: chunks_abandoned_page
SELECT @chunk_columns
FROM gapless.chunks
WHERE backfill_id = :id AND status = 'ABANDONED'
ORDER BY chunk_index
LIMIT :limit

-- name: chunks_done_page
-- Complete or cancelled: most chunks are, so there is no index of them.
SELECT @chunk_columns
FROM gapless.chunks
WHERE backfill_id = :id AND status = :status
ORDER BY chunk_index
LIMIT :limit

-- name: attempts
SELECT attempt, at, worker, error_class, error_message, traceback
FROM gapless.attempts
WHERE backfill_id = :id AND chunk_index = :chunk_index
ORDER BY fence

-- name: dead
SELECT c.backfill_id, b.job, b.selection, c.chunk_index, c.first, c.last, c.attempts, c.lost,
       c.last_processed, c.holes, c.error_class, c.error_message, c.ended_at
FROM gapless.chunks c
JOIN gapless.backfills b ON b.id = c.backfill_id
WHERE c.status = 'ABANDONED' AND c.purged_at IS NULL
  AND (:id::text IS NULL OR c.backfill_id = :id)
ORDER BY c.backfill_id, c.chunk_index
LIMIT :limit

-- name: events
SELECT seq, type, backfill_id, payload, actor, at
FROM gapless.events
WHERE backfill_id = :id AND seq > :after
ORDER BY seq
LIMIT :limit

-- name: chunk_facts
SELECT chunk_index, first, last, attempts, lost,
       CASE WHEN status IN ('COMPLETE', 'ABANDONED', 'CANCELLED') THEN status END
FROM gapless.chunks
WHERE backfill_id = :id
ORDER BY chunk_index

-- name: counted
-- Ended chunks by status, counted row by row: what the counters must say.
SELECT count(*) FILTER (WHERE status = 'COMPLETE'), count(*) FILTER (WHERE status = 'ABANDONED'),
       count(*) FILTER (WHERE status = 'CANCELLED')
FROM gapless.chunks
WHERE backfill_id = :id

-- name: compactable
SELECT id FROM gapless.backfills b
WHERE state IN ('SUCCEEDED', 'FAILED', 'CANCELLED')
  AND NOT EXISTS (SELECT 1 FROM gapless.events e
                  WHERE e.idempotency_key = 'backfill_compacted:' || b.id)
ORDER BY created_at

-- name: drop_chunk_events
DELETE FROM gapless.events
WHERE backfill_id = :id AND type IN ('BackfillChunkPlanned', 'ChunkFailed', 'ChunkEnded')
RETURNING seq

-- name: drop_attempts
-- What is remembered of failed runs, except for those that ended as dead letters.
DELETE FROM gapless.attempts
WHERE backfill_id = :id
  AND chunk_index NOT IN (SELECT chunk_index FROM gapless.chunks
                          WHERE backfill_id = :id AND status = 'ABANDONED' AND purged_at IS NULL)
