-- Claiming, which recovers and plans. The backfill's row is locked before any chunk is touched.
--
-- The cost of a statement must not grow with the number of ended chunks, whatever the statistics
-- say: they may be missing or old. A search by the first key column of `chunks` reads every chunk of
-- a backfill, so no statement leaves the choice of an index to the planner:
--   * open chunks are found by `ORDER BY` the second column of their partial index, with sorting
--     disabled (see `database.py`): no other index provides that order;
--   * given chunks are found by `(backfill_id, chunk_index) BETWEEN x AND x`, with sequential scans
--     disabled: only a search by the whole key, for each of them, satisfies that;
--   * `status || ''` checks the status without letting it choose the index.

-- part: still_open
-- Whether `b`, found by its id, still is a backfill of the queue that is neither paused nor stopping.
b.queue = :queue AND b.state || '' IN ('PENDING', 'RUNNING') AND b.stopping IS NULL

-- part: has_work
-- Whether `b` is a backfill of the queue that may run more and has work, and it is not paused.
b.queue = :queue AND b.state IN ('PENDING', 'RUNNING') AND b.stopping IS NULL
  AND NOT EXISTS (SELECT 1 FROM gapless.paused_queues p WHERE p.name = :queue)
  AND (:only::text IS NULL OR b.id = :only OR b.follow = :only)
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
-- Whether a lease of `b` has ended, or ends impossibly late because the clock has jumped back.
coalesce((SELECT c.due FROM gapless.chunks c
          WHERE c.backfill_id = b.id AND c.status = 'RUNNING'
          ORDER BY c.due LIMIT 1) <= @now
         OR (SELECT c.due FROM gapless.chunks c
             WHERE c.backfill_id = b.id AND c.status = 'RUNNING'
             ORDER BY c.due DESC LIMIT 1) > @now + b.lease_seconds + 1, false)

-- part: failed_due
-- Whether a failed chunk of `b` may be retried, or waits impossibly long: the clock jumped back.
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
-- Locks a random backfill with work, one that is free, else with `waits` the next to become free. Of
-- each follow, only the one with the highest precedence is a candidate. Whoever held the lock may
-- have paused or stopped the backfill, so those columns are checked again.
WITH ready AS MATERIALIZED (
    SELECT b.id, b.follow, b.precedence, CASE WHEN b.follow IS NULL THEN b.id END AS single
    FROM gapless.backfills b
    WHERE @has_work
), foremost AS MATERIALIZED (
    SELECT DISTINCT ON (follow, single) id FROM ready
    ORDER BY follow, single, precedence DESC, id DESC
), free AS MATERIALIZED (
    SELECT @b.Candidate FROM foremost f JOIN gapless.backfills b ON b.id = f.id
    WHERE @still_open
    ORDER BY random() LIMIT 1 FOR NO KEY UPDATE OF b SKIP LOCKED
), awaited AS MATERIALIZED (
    SELECT @b.Candidate FROM foremost f JOIN gapless.backfills b ON b.id = f.id
    WHERE @still_open AND :waits::bool AND NOT EXISTS (SELECT 1 FROM free)
    ORDER BY random() LIMIT 1 FOR NO KEY UPDATE OF b
)
SELECT *, false AS awaited FROM free UNION ALL SELECT *, true FROM awaited

-- name: expired
-- Leases that have ended, or that end impossibly late because the clock has jumped back.
SELECT @c.ExpiredChunk
FROM gapless.chunks c
WHERE c.backfill_id = :id AND c.status = 'RUNNING'
  AND NOT (c.due > @now AND c.due <= @now + 1 + (SELECT b.lease_seconds FROM gapless.backfills b
                                                 WHERE b.id = :id))
ORDER BY c.due
FOR UPDATE SKIP LOCKED

-- name: inspect
-- A locked backfill, how many more runs it allows, and whether leases have ended or retries are due.
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

-- name: take_ranked
-- Failed chunks whose wait is over and pending ones, whichever ranks first.
WITH waited AS MATERIALIZED (
    SELECT c.chunk_index, c.rank FROM gapless.chunks c
    WHERE c.backfill_id = :id AND c.status = 'FAILED' AND c.due <= @now
    ORDER BY c.due FOR UPDATE SKIP LOCKED
), misdated AS MATERIALIZED (
    SELECT c.chunk_index, c.rank FROM gapless.chunks c
    WHERE c.backfill_id = :id AND c.status = 'FAILED' AND c.due > @now + :longest::float8 + 1
    ORDER BY c.due FOR UPDATE SKIP LOCKED
), pending AS MATERIALIZED (
    SELECT c.chunk_index, c.rank FROM gapless.chunks c
    WHERE c.backfill_id = :id AND c.status = 'PENDING'
    ORDER BY c.rank LIMIT :k FOR UPDATE SKIP LOCKED
), next AS MATERIALIZED (
    SELECT chunk_index
    FROM (SELECT * FROM waited UNION ALL SELECT * FROM misdated UNION ALL SELECT * FROM pending)
         AS ready
    ORDER BY rank LIMIT :k)
UPDATE gapless.chunks c
SET status = 'RUNNING', owner = :owner, claim_id = :claim_id, due = @now + :lease::float8,
    fence = nextval('gapless.fence'), started_at = coalesce(c.started_at, @now)
FROM next
WHERE (c.backfill_id, c.chunk_index) BETWEEN (:id, next.chunk_index) AND (:id, next.chunk_index)
  AND c.status || '' IN ('FAILED', 'PENDING')
RETURNING @c.LeasedChunk

-- name: take_pending
-- As many as may run; with `guarded`, none if ended leases or due failures must be taken first.
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
-- The chunks that an earlier attempt of this claim took, if its reply was lost.
SELECT @ReclaimedChunk
FROM gapless.chunks
WHERE status = 'RUNNING' AND claim_id = :claim_id

-- name: plan
-- Chunks :low to :high with their events; planning an index again changes nothing. Nobody else plans
-- while the backfill is locked, so looking first is enough, and cheaper than ON CONFLICT. Usually none
-- of them exists, which one look at their range tells.
WITH wanted AS MATERIALIZED (
    SELECT b.id AS backfill_id, n AS chunk_index, @chunk_rank AS rank, @chunk_first AS first,
           @chunk_last AS last
    FROM gapless.backfills b, generate_series(:low::bigint, :high::bigint) AS n
    WHERE b.id = :id
      AND CASE WHEN (SELECT true FROM gapless.chunks c
                     WHERE c.backfill_id = :id AND c.chunk_index BETWEEN :low AND :high
                     ORDER BY c.backfill_id, c.chunk_index LIMIT 1) IS NULL THEN true
               ELSE (SELECT true FROM gapless.chunks c
                     WHERE c.backfill_id = b.id AND c.chunk_index = n) IS NULL END
), fresh AS (
    INSERT INTO gapless.chunks (backfill_id, chunk_index, rank, first, last, status, planned_at)
    SELECT backfill_id, chunk_index, rank, first, last, 'PENDING', @now FROM wanted
), recorded AS (
    INSERT INTO gapless.events (@NewEvent, actor, at) SELECT @planned_event, :actor, @now FROM wanted
)
UPDATE gapless.backfills SET planned = planned + :high - :low + 1 WHERE id = :id

-- name: has_work
-- Whether the queue has chunks to claim.
SELECT EXISTS (SELECT 1 FROM gapless.backfills b WHERE @has_work)

-- name: next_due
-- Seconds until the next retry and until the next end of a lease in these queues.
-- What is due already waits for a free run, not for time.
SELECT min((SELECT min(c.due) FROM gapless.chunks c
            WHERE c.backfill_id = b.id AND c.status = 'FAILED'
              AND c.due > @now)) - @now AS retry,
       min((SELECT min(c.due) FROM gapless.chunks c
            WHERE c.backfill_id = b.id AND c.status = 'RUNNING'
              AND c.due > @now)) - @now AS lease
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
-- Keeps others from drawing fences until the commit, because whoever draws one writes to one of these
-- tables first. A fence drawn between reading and setting the sequence would otherwise be drawn again.
LOCK TABLE gapless.cursors, gapless.chunks IN SHARE ROW EXCLUSIVE MODE

-- name: raise_fence
SELECT setval('gapless.fence', greatest(last_value, :above::bigint)) FROM gapless.fence
