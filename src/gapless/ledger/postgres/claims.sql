-- Claiming, which recovers and plans. The backfill's row is locked before any chunk is touched.

-- name: candidate
-- A random backfill of the queue with room and something to do.
SELECT b.id
FROM gapless.backfills b
WHERE b.queue = :queue AND b.state IN ('PENDING', 'RUNNING') AND b.stopping IS NULL
  AND (:only::text IS NULL OR b.id = :only)
  AND EXISTS (SELECT 1 FROM json_array_elements(:jobs::json) j
              WHERE j ->> 0 = b.job AND (j ->> 1)::bigint = b.job_version)
  AND (SELECT count(*) FROM gapless.chunks c
       WHERE c.backfill_id = b.id AND c.status = 'RUNNING'
         AND c.due > @now AND c.due <= @now + b.lease_seconds + 1) < b.max_concurrent_runs
  AND (b.planned < b.chunk_total
       OR EXISTS (SELECT 1 FROM gapless.chunks c
                  WHERE c.backfill_id = b.id AND c.status = 'PENDING')
       OR EXISTS (SELECT 1 FROM gapless.chunks c
                  WHERE c.backfill_id = b.id AND c.status = 'FAILED' AND c.due <= @now)
       OR EXISTS (SELECT 1 FROM gapless.chunks c
                  WHERE c.backfill_id = b.id AND c.status = 'FAILED'
                    AND c.due > @now + b.retry_longest + 1)
       OR EXISTS (SELECT 1 FROM gapless.chunks c
                  WHERE c.backfill_id = b.id AND c.status = 'RUNNING'
                    AND NOT (c.due > @now AND c.due <= @now + b.lease_seconds + 1)))
ORDER BY random()
LIMIT 1

-- name: try_lock_candidate
SELECT id FROM gapless.backfills
WHERE id = :id AND state IN ('PENDING', 'RUNNING') AND stopping IS NULL
FOR NO KEY UPDATE SKIP LOCKED

-- name: lock_candidate
SELECT id FROM gapless.backfills
WHERE id = :id AND state IN ('PENDING', 'RUNNING') AND stopping IS NULL
FOR NO KEY UPDATE

-- name: expired
-- Leases that ended, or that a clock which jumped back has put out of reach.
SELECT c.chunk_index, c.rank, c.first, c.last, c.fence, c.attempts, c.lost, c.last_processed,
       c.failed_behind, c.holes, c.claim_id
FROM gapless.backfills b
JOIN gapless.chunks c ON c.backfill_id = b.id
WHERE b.id = :id AND c.status = 'RUNNING'
  AND NOT (c.due > @now AND c.due <= @now + b.lease_seconds + 1)
FOR UPDATE OF c SKIP LOCKED

-- name: inspect
-- The locked backfill, its room, and whether leases have ended or failed chunks are due.
SELECT b.job, b.job_version, b.selection, b.chunk_total, b.planned, b.run_order, b.retry,
       b.lease_seconds, b.group_name, b.state, b.state_version, b.stopping,
       b.max_concurrent_runs
       - (SELECT count(*) FROM gapless.chunks c
          WHERE c.backfill_id = b.id AND c.status = 'RUNNING'),
       EXISTS (SELECT 1 FROM gapless.chunks c
               WHERE c.backfill_id = b.id AND c.status = 'RUNNING'
                 AND NOT (c.due > @now AND c.due <= @now + b.lease_seconds + 1)),
       EXISTS (SELECT 1 FROM gapless.chunks c
               WHERE c.backfill_id = b.id AND c.status = 'FAILED' AND c.due <= @now)
       OR EXISTS (SELECT 1 FROM gapless.chunks c
                  WHERE c.backfill_id = b.id AND c.status = 'FAILED'
                    AND c.due > @now + b.retry_longest + 1)
FROM gapless.backfills b
WHERE b.id = :id

-- name: take_failed
UPDATE gapless.chunks c
SET status = 'RUNNING', owner = :owner, claim_id = :claim_id, due = @now + :lease::float8,
    fence = nextval('gapless.fence'), started_at = coalesce(c.started_at, @now)
FROM (SELECT chunk_index FROM gapless.chunks
      WHERE backfill_id = :id AND status = 'FAILED' AND due <= @now
      UNION ALL
      SELECT chunk_index FROM gapless.chunks
      WHERE backfill_id = :id AND status = 'FAILED' AND due > @now + :longest::float8 + 1
      LIMIT :k) AS due_now
WHERE c.backfill_id = :id AND c.chunk_index = due_now.chunk_index
RETURNING c.chunk_index, c.rank, c.first, c.last, c.fence, c.attempts, c.lost, c.last_processed,
          c.failed_behind, c.holes

-- name: take_pending
UPDATE gapless.chunks c
SET status = 'RUNNING', owner = :owner, claim_id = :claim_id, due = @now + :lease::float8,
    fence = nextval('gapless.fence'), started_at = coalesce(c.started_at, @now)
FROM (SELECT chunk_index FROM gapless.chunks
      WHERE backfill_id = :id AND status = 'PENDING' ORDER BY rank LIMIT :k) AS next
WHERE c.backfill_id = :id AND c.chunk_index = next.chunk_index
RETURNING c.chunk_index, c.rank, c.first, c.last, c.fence, c.attempts, c.lost, c.last_processed,
          c.failed_behind, c.holes

-- name: claimed_before
-- What an earlier try of this claim took, if its reply was lost.
SELECT backfill_id, chunk_index, rank, first, last, fence, attempts, lost, last_processed,
       failed_behind, holes
FROM gapless.chunks
WHERE status = 'RUNNING' AND claim_id = :claim_id

-- name: plan
-- Chunks :low to :high with their events; an index planned before is left as it is.
WITH fresh AS (
    INSERT INTO gapless.chunks (backfill_id, chunk_index, rank, first, last, status, planned_at)
    SELECT b.id, n, n * :direction::bigint, n * b.chunk_size,
           least((n + 1) * b.chunk_size, b.partitions) - 1, 'PENDING', @now
    FROM gapless.backfills b, generate_series(:low::bigint, :high::bigint) AS n
    WHERE b.id = :id
    ON CONFLICT DO NOTHING
    RETURNING chunk_index, first, last
), told AS (
    INSERT INTO gapless.events (idempotency_key, backfill_id, type, payload, actor, at)
    SELECT 'backfill_chunk:' || :id || ':' || chunk_index, :id, 'BackfillChunkPlanned',
           '{"chunk_index":' || chunk_index || ',"first":' || first || ',"last":' || last || '}',
           :actor, @now
    FROM fresh ORDER BY chunk_index
    ON CONFLICT DO NOTHING
)
UPDATE gapless.backfills SET planned = planned + :high - :low + 1 WHERE id = :id

-- name: next_due
-- When the next waiting chunk, or the end of a lease, may give these queues something to do.
SELECT min((SELECT min(c.due) FROM gapless.chunks c
            WHERE c.backfill_id = b.id AND c.status = 'FAILED')) - @now,
       min((SELECT min(c.due) FROM gapless.chunks c
            WHERE c.backfill_id = b.id AND c.status = 'RUNNING')) - @now
FROM gapless.backfills b
WHERE b.queue IN (SELECT json_array_elements_text(:queues::json))
  AND b.state IN ('PENDING', 'RUNNING')

-- name: active_jobs
SELECT DISTINCT job, job_version
FROM gapless.backfills
WHERE queue IN (SELECT json_array_elements_text(:queues::json))
  AND state IN ('PENDING', 'RUNNING', 'PAUSED')
