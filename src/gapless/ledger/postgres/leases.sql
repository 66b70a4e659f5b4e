-- What the holder of a lease may do. Each statement names fence and claim; if it changes no row, the
-- lease is lost.
-- `claims.sql` explains the form of the conditions.

-- name: heartbeat
-- A late heartbeat reverts nothing: in a run, `last_processed` only grows, and when it has reached
-- the end, the holes only shrink. A chunk whose row is locked, usually by a transaction of its own job,
-- is left out.
WITH free AS MATERIALIZED (
    SELECT item.*
    FROM (@Beat(items)) AS item, gapless.chunks c
    WHERE (c.backfill_id, c.chunk_index) BETWEEN (:id, item.chunk_index)
                                             AND (:id, item.chunk_index)
    FOR UPDATE OF c SKIP LOCKED)
UPDATE gapless.chunks c
SET due = @now + (SELECT b.lease_seconds FROM gapless.backfills b WHERE b.id = :id),
    last_processed = greatest(c.last_processed, free.last_processed),
    holes = CASE
        WHEN (coalesce(free.last_processed, -1),
              (SELECT coalesce(sum((h ->> 0)::bigint - (h ->> 1)::bigint - 1), 0)
               FROM json_array_elements(free.holes::json) AS h))
          >= (coalesce(c.last_processed, -1),
              (SELECT coalesce(sum((h ->> 0)::bigint - (h ->> 1)::bigint - 1), 0)
               FROM json_array_elements(c.holes::json) AS h))
        THEN free.holes ELSE c.holes END
FROM free
WHERE (c.backfill_id, c.chunk_index) BETWEEN (:id, free.chunk_index) AND (:id, free.chunk_index)
  AND c.status || '' = 'RUNNING' AND c.fence = free.fence AND c.claim_id = free.claim_id
RETURNING c.fence

-- name: signals
SELECT @Signals FROM gapless.backfills WHERE id = :id

-- name: complete
-- `held` has the fences of chunks by their index, by claim. All lock rows in the order of the index.
WITH ended AS (
    UPDATE gapless.chunks c
    SET status = 'COMPLETE', last_processed = c.last, holes = NULL, due = NULL, ended_at = @now,
        error_class = NULL, error_message = NULL
    FROM (SELECT chunk.key::bigint AS chunk_index, chunk.value::bigint AS fence,
                 claim.key AS claim_id
          FROM json_each(:held::json) AS claim, json_each_text(claim.value) AS chunk
          ORDER BY 1) AS item
    WHERE (c.backfill_id, c.chunk_index) BETWEEN (:id, item.chunk_index)
                                             AND (:id, item.chunk_index)
      AND c.status || '' = 'RUNNING' AND c.fence = item.fence AND c.claim_id = item.claim_id
    RETURNING c.backfill_id, c.chunk_index
), recorded AS (
    INSERT INTO gapless.events (@NewEvent, actor, at)
    SELECT @completed_event, :actor, @now FROM ended
), counted AS (
    INSERT INTO gapless.counts AS n (backfill_id, shard, complete, minute, in_minute, changed_at)
    SELECT :id, :shard, count(*), @minute, count(*), @now FROM ended HAVING count(*) > 0
    ON CONFLICT (backfill_id, shard) DO UPDATE
    SET complete = n.complete + excluded.complete, changed_at = excluded.changed_at,
        in_previous_minute = CASE excluded.minute - n.minute
            WHEN 0 THEN n.in_previous_minute WHEN 1 THEN n.in_minute ELSE 0 END,
        in_minute = excluded.in_minute
            + CASE excluded.minute WHEN n.minute THEN n.in_minute ELSE 0 END,
        minute = excluded.minute
)
SELECT chunk_index FROM ended

-- name: fail
-- Ends a run with an error: FAILED until `delay` is over, or ABANDONED.
UPDATE gapless.chunks
SET status = :status::text, attempts = :attempts, lost = :lost, due = @now + :delay::float8,
    last_processed = :last_processed::bigint, last_failure_position = :last_processed::bigint,
    holes = :holes, error_class = :error_class, error_message = :error_message,
    ended_at = CASE :status WHEN 'ABANDONED' THEN @now END
WHERE backfill_id = :id AND chunk_index = :chunk_index AND status || '' = 'RUNNING'
  AND fence = :fence AND claim_id = :claim_id
RETURNING chunk_index

-- name: add_attempt
-- Records and counts a failed run, and deletes the oldest of its chunk. The DELETE does not see the
-- new one.
WITH added AS (
    INSERT INTO gapless.attempts (backfill_id, chunk_index, fence, attempt, at, worker,
                                  error_class, error_message, traceback)
    VALUES (:id, :chunk_index, :fence, :attempt, @now, :worker, :error_class, :error_message,
            :traceback)
), counted AS (
    INSERT INTO gapless.counts AS n (backfill_id, shard, failed_runs, abandoned, changed_at)
    VALUES (:id, :shard, 1, :abandoned, @now)
    ON CONFLICT (backfill_id, shard) DO UPDATE
    SET failed_runs = n.failed_runs + 1, abandoned = n.abandoned + excluded.abandoned,
        changed_at = excluded.changed_at
)
DELETE FROM gapless.attempts
WHERE backfill_id = :id AND chunk_index = :chunk_index
  AND fence <= (SELECT a.fence FROM gapless.attempts a
                WHERE a.backfill_id = :id AND a.chunk_index = :chunk_index
                ORDER BY a.fence DESC LIMIT 1 OFFSET :kept::bigint - 1)

-- name: release
-- Gives a chunk back; the next run resumes after its progress.
UPDATE gapless.chunks
SET status = 'PENDING', due = NULL, last_processed = :last_processed, holes = :holes
WHERE backfill_id = :id AND chunk_index = :chunk_index AND status || '' = 'RUNNING'
  AND fence = :fence AND claim_id = :claim_id
RETURNING chunk_index

-- name: confirm
-- The status, to find out whether a statement whose reply was lost has taken effect.
SELECT status FROM gapless.chunks
WHERE backfill_id = :id AND chunk_index = :chunk_index AND fence = :fence AND claim_id = :claim_id

-- name: hold
-- Locks the chunk's row for a transaction in which a job writes its effects.
SELECT chunk_index FROM gapless.chunks
WHERE backfill_id = :id AND chunk_index = :chunk_index AND status || '' = 'RUNNING'
  AND fence = :fence AND claim_id = :claim_id
FOR UPDATE
