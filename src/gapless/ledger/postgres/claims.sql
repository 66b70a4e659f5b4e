-- Claiming, which recovers and plans. The backfill's row is locked before any chunk is touched.
--
-- Nothing here may cost more the more chunks have ended, whatever the statistics say, for they may
-- be missing or tell of another day. The first key column of `chunks` alone finds every chunk of a
-- backfill, so no statement leaves that choice to the planner:
--   * open chunks are found by `ORDER BY` the second column of their partial index, with sorting
--     switched off (see `database.py`): no other index serves that order;
--   * given chunks are found by `(backfill_id, chunk_index) BETWEEN x AND x`, with scans of the
--     whole table switched off: only a search of the key, for each of them, serves that;
--   * `status || ''` says that the status is to be checked and not to choose the index.

-- part: has_work
-- Whether `b` is a backfill of the queue with room and something to do.
b.queue = :queue AND b.state IN ('PENDING', 'RUNNING') AND b.stopping IS NULL
  AND (:only::text IS NULL OR b.id = :only)
  AND NOT EXISTS (SELECT 1 FROM json_array_elements_text(:tried::json) AS t(id) WHERE t.id = b.id)
  AND EXISTS (SELECT 1 FROM (@JobVersion(jobs)) AS j
              WHERE j.job = b.job AND j.job_version = b.job_version)
  AND (SELECT count(*)
       FROM (SELECT c.due FROM gapless.chunks c
             WHERE c.backfill_id = b.id AND c.status = 'RUNNING'
               AND c.due > @now AND c.due <= @now + b.lease_seconds + 1
             ORDER BY c.due LIMIT b.max_concurrent_runs) AS running) < b.max_concurrent_runs
  AND (b.planned < b.chunk_total
       OR (SELECT c.rank FROM gapless.chunks c
           WHERE c.backfill_id = b.id AND c.status = 'PENDING'
           ORDER BY c.rank LIMIT 1) IS NOT NULL
       OR @failed_due
       OR @lease_over)

-- part: lease_over
-- Whether a lease of `b` has ended, or a clock which jumped back has put its end out of reach.
coalesce((SELECT c.due FROM gapless.chunks c
          WHERE c.backfill_id = b.id AND c.status = 'RUNNING'
          ORDER BY c.due LIMIT 1) <= @now
         OR (SELECT c.due FROM gapless.chunks c
             WHERE c.backfill_id = b.id AND c.status = 'RUNNING'
             ORDER BY c.due DESC LIMIT 1) > @now + b.lease_seconds + 1, false)

-- part: failed_due
-- Whether a failed chunk of `b` has waited long enough, by a clock that may have jumped back.
coalesce((SELECT c.due FROM gapless.chunks c
          WHERE c.backfill_id = b.id AND c.status = 'FAILED'
          ORDER BY c.due LIMIT 1) <= @now
         OR (SELECT c.due FROM gapless.chunks c
             WHERE c.backfill_id = b.id AND c.status = 'FAILED'
             ORDER BY c.due DESC LIMIT 1) > @now + b.retry_longest + 1, false)

-- part: room
-- How many more chunks of `b` may run.
(b.max_concurrent_runs
 - (SELECT count(*)
    FROM (SELECT c.due FROM gapless.chunks c
          WHERE c.backfill_id = b.id AND c.status = 'RUNNING'
          ORDER BY c.due) AS running))

-- name: lock_candidate
-- A random backfill with work, among those that nobody else holds.
SELECT @b.Candidate
FROM gapless.backfills b
WHERE @has_work
ORDER BY random()
LIMIT 1
FOR NO KEY UPDATE SKIP LOCKED

-- name: held_candidate
-- Whether there is work in a backfill that somebody else holds.
SELECT 1 FROM gapless.backfills b WHERE @has_work LIMIT 1

-- name: await_candidate
-- A random backfill with work, once whoever holds it is done.
SELECT @b.Candidate
FROM gapless.backfills b
WHERE @has_work
ORDER BY random()
LIMIT 1
FOR NO KEY UPDATE

-- name: expired
-- Leases that ended, or that a clock which jumped back has put out of reach.
SELECT @c.ExpiredChunk
FROM gapless.chunks c
WHERE c.backfill_id = :id AND c.status = 'RUNNING'
  AND NOT (c.due > @now AND c.due <= @now + 1 + (SELECT b.lease_seconds FROM gapless.backfills b
                                                 WHERE b.id = :id))
ORDER BY c.due
FOR UPDATE SKIP LOCKED

-- name: inspect
-- The locked backfill, its room, and whether leases have ended or failed chunks are due.
SELECT @b.LockedBackfill, @room AS room, @lease_over AS has_expired, @failed_due AS has_due
FROM gapless.backfills b
WHERE b.id = :id

-- name: take_failed
WITH waited AS MATERIALIZED (
    SELECT c.chunk_index FROM gapless.chunks c
    WHERE c.backfill_id = :id AND c.status = 'FAILED' AND c.due <= @now
    ORDER BY c.due LIMIT :k FOR UPDATE SKIP LOCKED
), misdated AS MATERIALIZED (
    SELECT c.chunk_index FROM gapless.chunks c
    WHERE c.backfill_id = :id AND c.status = 'FAILED' AND c.due > @now + :longest::float8 + 1
    ORDER BY c.due LIMIT :k FOR UPDATE SKIP LOCKED
), next AS MATERIALIZED (
    SELECT chunk_index FROM waited UNION ALL SELECT chunk_index FROM misdated LIMIT :k)
UPDATE gapless.chunks c
SET status = 'RUNNING', owner = :owner, claim_id = :claim_id, due = @now + :lease::float8,
    fence = nextval('gapless.fence'), started_at = coalesce(c.started_at, @now)
FROM next
WHERE (c.backfill_id, c.chunk_index) BETWEEN (:id, next.chunk_index) AND (:id, next.chunk_index)
  AND c.status || '' = 'FAILED'
RETURNING @c.LeasedChunk

-- name: take_pending
-- As many as there is room for; if `guarded`, none while ended leases or due failures come before.
WITH next AS MATERIALIZED (
    SELECT c.chunk_index FROM gapless.chunks c
    WHERE c.backfill_id = :id AND c.status = 'PENDING'
    ORDER BY c.rank
    LIMIT (SELECT CASE WHEN :guarded::bool AND (@lease_over OR @failed_due) THEN 0
                       ELSE greatest(0, least(:k::bigint, @room)) END
           FROM gapless.backfills b
           WHERE b.id = :id)
    FOR UPDATE SKIP LOCKED)
UPDATE gapless.chunks c
SET status = 'RUNNING', owner = :owner, claim_id = :claim_id, due = @now + :lease::float8,
    fence = nextval('gapless.fence'), started_at = coalesce(c.started_at, @now)
FROM next
WHERE (c.backfill_id, c.chunk_index) BETWEEN (:id, next.chunk_index) AND (:id, next.chunk_index)
  AND c.status || '' = 'PENDING'
RETURNING @c.LeasedChunk

-- name: claimed_before
-- What an earlier try of this claim took, if its reply was lost.
SELECT @ReclaimedChunk
FROM gapless.chunks
WHERE status = 'RUNNING' AND claim_id = :claim_id

-- name: plan
-- Chunks :low to :high with their events; an index planned before is left as it is. Nobody else
-- plans while the backfill is locked, so looking first is enough, and cheaper than ON CONFLICT.
WITH wanted AS MATERIALIZED (
    SELECT b.id AS backfill_id, n AS chunk_index, @chunk_rank AS rank, @chunk_first AS first,
           @chunk_last AS last
    FROM gapless.backfills b, generate_series(:low::bigint, :high::bigint) AS n
    WHERE b.id = :id
      AND (SELECT true FROM gapless.chunks c
           WHERE c.backfill_id = b.id AND c.chunk_index = n) IS NULL
), fresh AS (
    INSERT INTO gapless.chunks (backfill_id, chunk_index, rank, first, last, status, planned_at)
    SELECT backfill_id, chunk_index, rank, first, last, 'PENDING', @now FROM wanted
), recorded AS (
    INSERT INTO gapless.events (@NewEvent, actor, at) SELECT @planned_event, :actor, @now FROM wanted
)
UPDATE gapless.backfills SET planned = planned + :high - :low + 1 WHERE id = :id

-- name: next_due
-- When the next waiting chunk, or the end of a lease, may give these queues something to do.
-- What was due before that waits for room, not for time.
SELECT min((SELECT min(c.due) FROM gapless.chunks c
            WHERE c.backfill_id = b.id AND c.status = 'FAILED'
              AND c.due > @now - :since::float8)) - @now AS retry,
       min((SELECT min(c.due) FROM gapless.chunks c
            WHERE c.backfill_id = b.id AND c.status = 'RUNNING'
              AND c.due > @now - :since::float8)) - @now AS lease
FROM gapless.backfills b
WHERE b.queue IN (SELECT json_array_elements_text(:queues::json))
  AND b.state IN ('PENDING', 'RUNNING')

-- name: active_jobs
SELECT DISTINCT @JobVersion
FROM gapless.backfills
WHERE queue IN (SELECT json_array_elements_text(:queues::json))
  AND state IN ('PENDING', 'RUNNING', 'PAUSED')

-- name: latest_fence
SELECT last_value FROM gapless.fence

-- name: stop_claims
-- Until the commit, nobody draws a fence: whoever does so writes to this table. Otherwise one who
-- drew between the reading and the setting of the sequence would see his fence drawn again.
LOCK TABLE gapless.chunks IN SHARE ROW EXCLUSIVE MODE

-- name: raise_fence
SELECT setval('gapless.fence', greatest(last_value, :above::bigint)) FROM gapless.fence
