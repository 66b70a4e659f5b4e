-- Reading: no statement here takes locks, or counts more rows than it needs to.

-- part: counted_backfill
@b.StoredBackfill,
       (SELECT count(*) FROM chunks c INDEXED BY chunks_running
        WHERE c.backfill_id = b.id AND c.status = 'RUNNING') AS running,
       (SELECT count(*) FROM chunks c INDEXED BY chunks_failed
        WHERE c.backfill_id = b.id AND c.status = 'FAILED') AS failed,
       coalesce((SELECT sum(n.complete) FROM counts n WHERE n.backfill_id = b.id), 0) AS complete,
       coalesce((SELECT sum(n.abandoned) FROM counts n WHERE n.backfill_id = b.id), 0) AS abandoned,
       coalesce((SELECT sum(n.cancelled) FROM counts n WHERE n.backfill_id = b.id), 0) AS cancelled,
       @queue_paused AS queue_paused,
       @now AS now

-- name: backfill
SELECT @counted_backfill
FROM backfills b
WHERE b.id = :id

-- name: backfills
SELECT @counted_backfill
FROM backfills b
WHERE (:state IS NULL OR b.state = :state)
  AND (:follow IS NULL OR b.follow = :follow)
  AND (:without IS NULL OR b.state = 'FAILED'
       OR substr(b.id, 1, length(:without)) <> :without)
ORDER BY b.created_at DESC, b.id DESC
LIMIT :limit

-- name: chunk_page
SELECT @StoredChunk
FROM chunks
WHERE backfill_id = :id AND chunk_index >= :low AND chunk_index <= :high
ORDER BY chunk_index
LIMIT :limit

-- name: chunks_running_page
SELECT @StoredChunk
FROM chunks INDEXED BY chunks_running
WHERE backfill_id = :id AND status = 'RUNNING'
ORDER BY due
LIMIT :limit

-- name: chunks_failed_page
SELECT @StoredChunk
FROM chunks INDEXED BY chunks_failed
WHERE backfill_id = :id AND status = 'FAILED'
ORDER BY due
LIMIT :limit

-- name: chunks_pending_page
SELECT @StoredChunk
FROM chunks INDEXED BY chunks_pending
WHERE backfill_id = :id AND status = 'PENDING'
ORDER BY rank
LIMIT :limit

-- name: chunks_abandoned_page
SELECT @StoredChunk
FROM chunks INDEXED BY chunks_dead
WHERE backfill_id = :id AND status = 'ABANDONED'
ORDER BY chunk_index
LIMIT :limit

-- name: chunks_done_page
-- Complete or cancelled chunks: they are the majority and have no index.
SELECT @StoredChunk
FROM chunks
WHERE backfill_id = :id AND status = :status
ORDER BY chunk_index
LIMIT :limit

-- name: attempts
SELECT @Attempt
FROM attempts
WHERE backfill_id = :id AND chunk_index = :chunk_index
ORDER BY fence

-- name: dead
SELECT @c.DeadChunk, b.job, b.selection
FROM chunks c INDEXED BY chunks_dead
JOIN backfills b ON b.id = c.backfill_id
WHERE c.status = 'ABANDONED' AND c.purged_at IS NULL
  AND (:id IS NULL OR c.backfill_id = :id)
ORDER BY c.backfill_id, c.chunk_index
LIMIT :limit

-- name: events
SELECT @StoredEvent
FROM events
WHERE backfill_id = :id AND seq > :after
ORDER BY seq
LIMIT :limit

-- name: chunk_facts
SELECT chunk_index, first, last, attempts, lost,
       CASE WHEN status IN ('COMPLETE', 'ABANDONED', 'CANCELLED') THEN status END AS ended
FROM chunks
WHERE backfill_id = :id
ORDER BY chunk_index

-- name: counted
-- Ended chunks by status, counted row by row, to be compared with the counters.
SELECT coalesce(sum(status = 'COMPLETE'), 0) AS complete,
       coalesce(sum(status = 'ABANDONED'), 0) AS abandoned,
       coalesce(sum(status = 'CANCELLED'), 0) AS cancelled
FROM chunks
WHERE backfill_id = :id

-- name: compactable
SELECT id FROM backfills b
WHERE state IN ('SUCCEEDED', 'FAILED', 'CANCELLED')
  AND NOT EXISTS (SELECT 1 FROM events e
                  WHERE e.idempotency_key = @compacted_key)
ORDER BY created_at

-- name: drop_chunk_events
DELETE FROM events
WHERE backfill_id = :id AND type IN (@chunk_events)
RETURNING seq

-- name: drop_attempts
-- Deletes the records of failed runs, except those of dead letters.
DELETE FROM attempts
WHERE backfill_id = :id
  AND chunk_index NOT IN (SELECT chunk_index FROM chunks
                          WHERE backfill_id = :id AND status = 'ABANDONED' AND purged_at IS NULL)
