-- What the holder of a lease may do. Each statement names fence and claim; if it changes no row, the
-- lease is lost.

-- name: heartbeat
-- A late heartbeat reverts nothing: in a run, `last_processed` only grows, and when it has reached
-- the end, the holes only shrink.
WITH item AS MATERIALIZED (@Beat(items))
UPDATE chunks
SET due = @now + (SELECT lease_seconds FROM backfills WHERE id = :id),
    last_processed = nullif(max(coalesce(chunks.last_processed, -1),
                                coalesce(item.last_processed, -1)), -1),
    holes = CASE
        WHEN (coalesce(item.last_processed, -1),
              coalesce((SELECT sum(value ->> 0 - value ->> 1 - 1) FROM json_each(item.holes)), 0))
          >= (coalesce(chunks.last_processed, -1),
              coalesce((SELECT sum(value ->> 0 - value ->> 1 - 1) FROM json_each(chunks.holes)), 0))
        THEN item.holes ELSE chunks.holes END
FROM item
WHERE chunks.backfill_id = :id AND chunks.chunk_index = item.chunk_index
  AND chunks.status = 'RUNNING' AND chunks.fence = item.fence
  AND chunks.claim_id = item.claim_id
RETURNING fence

-- name: signals
SELECT @Signals FROM backfills WHERE id = :id

-- name: complete
-- `held` has the fences of chunks by their index, by claim. Its columns are expressions: of plain
-- columns SQLite would make an index, and read all chunks of the backfill to look them up in it.
WITH item AS MATERIALIZED (
    SELECT chunk.key + 0 AS chunk_index, +chunk.value AS fence, +claim.key AS claim_id
    FROM json_each(:held) AS claim, json_each(claim.value) AS chunk)
UPDATE chunks
SET status = 'COMPLETE', last_processed = last, holes = NULL, due = NULL, ended_at = @now,
    error_class = NULL, error_message = NULL
FROM item
WHERE chunks.backfill_id = :id AND chunks.chunk_index = item.chunk_index
  AND chunks.status = 'RUNNING' AND chunks.fence = item.fence
  AND chunks.claim_id = item.claim_id
RETURNING chunk_index;
INSERT INTO events (@NewEvent, actor, at)
SELECT @completed_event, :actor, @now
FROM (SELECT :id AS backfill_id, value AS chunk_index FROM json_each(:returned));
INSERT INTO counts (backfill_id, shard, complete, minute, in_minute, changed_at)
SELECT :id, :shard, changes(), @minute, changes(), @now WHERE changes() > 0
ON CONFLICT DO UPDATE
SET complete = complete + excluded.complete, changed_at = excluded.changed_at,
    in_previous_minute = CASE excluded.minute - minute
        WHEN 0 THEN in_previous_minute WHEN 1 THEN in_minute ELSE 0 END,
    in_minute = excluded.in_minute + CASE excluded.minute WHEN minute THEN in_minute ELSE 0 END,
    minute = excluded.minute

-- name: fail
-- Ends a run with an error: FAILED until `delay` is over, or ABANDONED.
UPDATE chunks
SET status = :status, attempts = :attempts, lost = :lost, due = @now + :delay,
    last_processed = :last_processed, last_failure_position = :last_processed, holes = :holes,
    error_class = :error_class, error_message = :error_message,
    ended_at = CASE :status WHEN 'ABANDONED' THEN @now END
WHERE backfill_id = :id AND chunk_index = :chunk_index AND status = 'RUNNING'
  AND fence = :fence AND claim_id = :claim_id
RETURNING chunk_index

-- name: add_attempt
-- Records and counts a failed run, and deletes the oldest of its chunk.
INSERT INTO attempts (backfill_id, chunk_index, fence, attempt, at, worker, error_class,
                      error_message, traceback)
VALUES (:id, :chunk_index, :fence, :attempt, @now, :worker, :error_class, :error_message,
        :traceback);
DELETE FROM attempts
WHERE backfill_id = :id AND chunk_index = :chunk_index
  AND fence <= (SELECT fence FROM attempts
                WHERE backfill_id = :id AND chunk_index = :chunk_index
                ORDER BY fence DESC LIMIT 1 OFFSET :kept);
INSERT INTO counts (backfill_id, shard, failed_runs, abandoned, changed_at)
VALUES (:id, :shard, 1, :abandoned, @now)
ON CONFLICT DO UPDATE SET failed_runs = failed_runs + 1, abandoned = abandoned + excluded.abandoned,
                          changed_at = excluded.changed_at

-- name: release
-- Gives a chunk back; the next run resumes after its progress.
UPDATE chunks
SET status = 'PENDING', due = NULL, last_processed = :last_processed, holes = :holes
WHERE backfill_id = :id AND chunk_index = :chunk_index AND status = 'RUNNING'
  AND fence = :fence AND claim_id = :claim_id
RETURNING chunk_index

-- name: confirm
-- The status, to find out whether a statement whose reply was lost has taken effect.
SELECT status FROM chunks
WHERE backfill_id = :id AND chunk_index = :chunk_index AND fence = :fence AND claim_id = :claim_id

-- name: hold
-- Locks the chunk's row for a transaction in which a job writes its effects.
SELECT chunk_index FROM chunks
WHERE backfill_id = :id AND chunk_index = :chunk_index AND status = 'RUNNING'
  AND fence = :fence AND claim_id = :claim_id
