-- Claiming, which recovers and plans. Every transaction here has begun immediate.
--
-- `INDEXED BY` makes a statement fail rather than scan: the cost of a statement must not grow with
-- the number of ended chunks.

-- part: has_work
-- Whether `b` is a backfill of the queue that may run more and has work. Usually none was tried, and
-- comparing with that takes less time than reading the list.
b.queue = :queue
  AND b.state IN ('PENDING', 'RUNNING', 'PAUSED') AND b.state <> 'PAUSED' AND b.stopping IS NULL
  AND NOT EXISTS (SELECT 1 FROM paused_queues p WHERE p.name = :queue)
  AND (:only IS NULL OR b.id = :only OR b.follow = :only)
  AND (:tried = '[]' OR b.id NOT IN (SELECT value FROM json_each(:tried)))
  AND EXISTS (SELECT 1 FROM (@JobVersion(jobs)) AS j
              WHERE j.job = b.job AND j.job_version = b.job_version)
  AND (SELECT count(*) FROM chunks c INDEXED BY chunks_running
       WHERE c.backfill_id = b.id AND c.status = 'RUNNING'
         AND c.due > @now AND c.due <= @now + b.lease_seconds + 1) < b.max_concurrent_runs
  AND (b.planned < b.chunk_total
       OR EXISTS (SELECT 1 FROM chunks c INDEXED BY chunks_pending
                  WHERE c.backfill_id = b.id AND c.status = 'PENDING')
       OR @failed_due
       OR @lease_over)

-- name: lock_candidate
-- A random backfill with work, among those without a follow and, of each follow, the one with the
-- highest precedence. The whole ledger is locked.
WITH ready AS MATERIALIZED (
    SELECT b.id, b.follow, b.precedence FROM backfills b WHERE @has_work)
SELECT @b.Candidate, 0 AS awaited
FROM backfills b
WHERE b.id = (SELECT r.id FROM ready r
              WHERE r.follow IS NULL
                 OR r.id = (SELECT f.id FROM ready f WHERE f.follow = r.follow
                            ORDER BY f.precedence DESC, f.id DESC LIMIT 1)
              ORDER BY random() LIMIT 1)

-- part: lease_over
-- Whether a lease of `b` has ended, or ends impossibly late because the clock has jumped back.
(EXISTS (SELECT 1 FROM chunks c INDEXED BY chunks_running
         WHERE c.backfill_id = b.id AND c.status = 'RUNNING' AND c.due <= @now)
 OR EXISTS (SELECT 1 FROM chunks c INDEXED BY chunks_running
            WHERE c.backfill_id = b.id AND c.status = 'RUNNING'
              AND c.due > @now + b.lease_seconds + 1))

-- part: failed_due
-- Whether a failed chunk of `b` may be retried, or waits impossibly long: the clock jumped back.
(EXISTS (SELECT 1 FROM chunks c INDEXED BY chunks_failed
         WHERE c.backfill_id = b.id AND c.status = 'FAILED' AND c.due <= @now)
 OR EXISTS (SELECT 1 FROM chunks c INDEXED BY chunks_failed
            WHERE c.backfill_id = b.id AND c.status = 'FAILED'
              AND c.due > @now + b.retry_longest + 1))

-- part: room
-- How many more chunks of `b` may run.
(b.max_concurrent_runs
 - (SELECT count(*) FROM chunks c INDEXED BY chunks_running
    WHERE c.backfill_id = b.id AND c.status = 'RUNNING'))

-- name: expired
-- Leases that have ended, or that end impossibly late because the clock has jumped back.
SELECT @c.ExpiredChunk
FROM backfills b
JOIN chunks c INDEXED BY chunks_running ON c.backfill_id = b.id
WHERE b.id = :id AND c.status = 'RUNNING'
  AND NOT (c.due > @now AND c.due <= @now + b.lease_seconds + 1)

-- name: inspect
-- A locked backfill, how many more runs it allows, and whether leases have ended or retries are due.
SELECT @b.LockedBackfill, @room AS room, @lease_over AS has_expired, @failed_due AS has_due
FROM backfills b
WHERE b.id = :id

-- name: take_failed
UPDATE chunks
SET status = 'RUNNING', owner = :owner, claim_id = :claim_id, due = @now + :lease,
    fence = (SELECT value FROM fence) + due_now.nth, started_at = coalesce(started_at, @now)
FROM (SELECT chunk_index, row_number() OVER () AS nth
      FROM (SELECT chunk_index FROM chunks INDEXED BY chunks_failed
            WHERE backfill_id = :id AND status = 'FAILED' AND due <= @now
            UNION ALL
            SELECT chunk_index FROM chunks INDEXED BY chunks_failed
            WHERE backfill_id = :id AND status = 'FAILED' AND due > @now + :longest + 1
            LIMIT :k)) AS due_now
WHERE backfill_id = :id AND chunks.chunk_index = due_now.chunk_index
RETURNING @LeasedChunk;
UPDATE fence SET value = value + changes() WHERE changes() > 0

-- name: take_ranked
-- Failed chunks whose wait is over and pending ones, whichever ranks first.
UPDATE chunks
SET status = 'RUNNING', owner = :owner, claim_id = :claim_id, due = @now + :lease,
    fence = (SELECT value FROM fence) + next.nth, started_at = coalesce(started_at, @now)
FROM (SELECT backfill_id, chunk_index, row_number() OVER () AS nth
      FROM (SELECT backfill_id, chunk_index, rank FROM chunks INDEXED BY chunks_failed
            WHERE backfill_id = :id AND status = 'FAILED' AND due <= @now
            UNION ALL
            SELECT backfill_id, chunk_index, rank FROM chunks INDEXED BY chunks_failed
            WHERE backfill_id = :id AND status = 'FAILED' AND due > @now + :longest + 1
            UNION ALL
            SELECT backfill_id, chunk_index, rank
            FROM (SELECT backfill_id, chunk_index, rank FROM chunks INDEXED BY chunks_pending
                  WHERE backfill_id = :id AND status = 'PENDING'
                  ORDER BY rank LIMIT :k)
            ORDER BY rank LIMIT :k)) AS next
WHERE chunks.backfill_id = next.backfill_id AND chunks.chunk_index = next.chunk_index
RETURNING @LeasedChunk;
UPDATE fence SET value = value + changes() WHERE changes() > 0

-- name: take_pending
-- As many as may run; with `guarded`, none if ended leases or due failures must be taken first.
UPDATE chunks
SET status = 'RUNNING', owner = :owner, claim_id = :claim_id, due = @now + :lease,
    fence = (SELECT value FROM fence) + next.nth, started_at = coalesce(started_at, @now)
FROM (SELECT chunk_index, row_number() OVER () AS nth
      FROM (SELECT chunk_index FROM chunks INDEXED BY chunks_pending
            WHERE backfill_id = :id AND status = 'PENDING'
            ORDER BY rank
            LIMIT (SELECT CASE WHEN :guarded AND (@lease_over OR @failed_due) THEN 0
                               ELSE max(0, min(:k, @room)) END
                   FROM backfills b
                   WHERE b.id = :id))) AS next
WHERE backfill_id = :id AND chunks.chunk_index = next.chunk_index
RETURNING @LeasedChunk;
UPDATE fence SET value = value + changes() WHERE changes() > 0

-- name: claimed_before
-- The chunks that an earlier attempt of this claim took, if its reply was lost.
SELECT @ReclaimedChunk
FROM chunks INDEXED BY chunks_running
WHERE status = 'RUNNING' AND claim_id = :claim_id

-- name: plan
-- Chunks :low to :high with their events; planning an index again changes nothing.
INSERT INTO chunks (backfill_id, chunk_index, rank, first, last, status, planned_at)
WITH RECURSIVE i(n) AS (SELECT :low UNION ALL SELECT n + 1 FROM i WHERE n < :high)
SELECT b.id, n, @chunk_rank, @chunk_first, @chunk_last, 'PENDING', @now
FROM i CROSS JOIN backfills b
WHERE b.id = :id
ON CONFLICT DO NOTHING;
INSERT INTO events (@NewEvent, actor, at)
WITH RECURSIVE i(n) AS (SELECT :low UNION ALL SELECT n + 1 FROM i WHERE n < :high)
SELECT @planned_event, :actor, @now
FROM (SELECT b.id AS backfill_id, n AS chunk_index, @chunk_first AS first, @chunk_last AS last
      FROM i CROSS JOIN backfills b
      WHERE b.id = :id)
WHERE true
ON CONFLICT DO NOTHING;
UPDATE backfills SET planned = planned + :high - :low + 1 WHERE id = :id

-- name: has_work
-- Whether the queue has chunks to claim.
SELECT EXISTS (SELECT 1 FROM backfills b WHERE @has_work)

-- name: next_due
-- Seconds until the next retry and until the next end of a lease in these queues.
-- What is due already waits for a free run, not for time.
SELECT min((SELECT min(c.due) FROM chunks c INDEXED BY chunks_failed
            WHERE c.backfill_id = b.id AND c.status = 'FAILED'
              AND c.due > @now)) - @now AS retry,
       min((SELECT min(c.due) FROM chunks c INDEXED BY chunks_running
            WHERE c.backfill_id = b.id AND c.status = 'RUNNING'
              AND c.due > @now)) - @now AS lease
FROM backfills b
WHERE b.queue IN (SELECT value FROM json_each(:queues))
  AND b.state IN ('PENDING', 'RUNNING', 'PAUSED') AND b.state <> 'PAUSED'

-- name: active_jobs
SELECT DISTINCT @JobVersion
FROM backfills
WHERE queue IN (SELECT value FROM json_each(:queues)) AND state IN ('PENDING', 'RUNNING', 'PAUSED')

-- name: latest_fence
SELECT value FROM fence

-- name: stop_claims
-- Keeps others from drawing fences until the commit: the whole ledger is locked already.
SELECT 1

-- name: raise_fence
UPDATE fence SET value = max(value, :above)
