-- Queues: pausing them, and their numbers.

-- part: queue_paused
-- Whether the queue of `b` is paused.
EXISTS (SELECT 1 FROM paused_queues p WHERE p.name = b.queue)

-- part: minute
-- The current minute since 1970.
CAST(@now / 60.0 AS INTEGER)

-- name: pause_queue
INSERT INTO paused_queues (name, paused_at) VALUES (:name, @now)
ON CONFLICT DO NOTHING
RETURNING name

-- name: resume_queue
DELETE FROM paused_queues WHERE name = :name RETURNING name

-- name: paused_queues
SELECT @PausedQueue FROM paused_queues

-- name: queue_totals
-- Every queue that has or had a backfill, and what became of the chunks. Of the minute before the
-- current one, the share that lies within the last 60 seconds counts.
SELECT name, sum(processed) AS processed, sum(failed) AS failed, sum(dead) AS dead,
       sum(completed_per_minute) AS completed_per_minute
FROM (SELECT b.queue AS name,
             coalesce(sum(n.complete), 0) AS processed,
             coalesce(sum(n.failed_runs), 0) AS failed,
             coalesce(sum(n.abandoned - n.folded_abandoned - n.purged + n.folded_purged), 0)
               AS dead,
             coalesce(sum(CASE @minute - n.minute
                          WHEN 0 THEN n.in_minute
                                      + n.in_previous_minute * (@minute + 1 - @now / 60.0)
                          WHEN 1 THEN n.in_minute * (@minute + 1 - @now / 60.0) END), 0.0)
               AS completed_per_minute
      FROM backfills b
      LEFT JOIN counts n ON n.backfill_id = b.id
      GROUP BY b.queue
      UNION ALL
      SELECT name, processed, failed, 0, 0.0 FROM folded_queues) AS totals
GROUP BY name

-- name: queue_backlog
-- The open chunks of every queue that has some, and how long the oldest ones have waited that a slot
-- could take: pending ones since they were planned, failed ones since their retry was due. Chunks are
-- planned by rank, so the pending one with the lowest rank was planned first.
WITH open AS MATERIALIZED (
    SELECT b.queue, b.state <> 'PAUSED' AND b.stopping IS NULL AS runs, b.max_concurrent_runs,
           CASE WHEN b.stopping IS NULL THEN b.chunk_total ELSE b.planned END
           - (SELECT coalesce(sum(n.complete + n.abandoned + n.cancelled), 0) FROM counts n
              WHERE n.backfill_id = b.id) AS unended,
           (SELECT count(*) FROM chunks c INDEXED BY chunks_running
            WHERE c.backfill_id = b.id AND c.status = 'RUNNING') AS running,
           (SELECT count(*) FROM chunks c INDEXED BY chunks_failed
            WHERE c.backfill_id = b.id AND c.status = 'FAILED') AS failed,
           (SELECT min(c.due) FROM chunks c INDEXED BY chunks_failed
            WHERE c.backfill_id = b.id AND c.status = 'FAILED') AS next_retry_at,
           coalesce((SELECT c.planned_at FROM chunks c INDEXED BY chunks_pending
                     WHERE c.backfill_id = b.id AND c.status = 'PENDING'
                     ORDER BY c.rank LIMIT 1),
                    CASE b.planned WHEN 0 THEN b.created_at END) AS pending_since
    FROM backfills b
    WHERE b.state IN ('PENDING', 'RUNNING', 'PAUSED')
)
SELECT queue AS name,
       sum(running) AS active,
       sum(unended - running - failed) AS pending,
       sum(failed) AS retry,
       min(next_retry_at) AS next_retry_at,
       @now - min(CASE WHEN runs AND running < max_concurrent_runs THEN pending_since END)
         AS pending_wait,
       @now - min(CASE WHEN runs AND running < max_concurrent_runs AND next_retry_at <= @now
                       THEN next_retry_at END) AS retry_wait
FROM open
GROUP BY queue

-- name: count_purged
INSERT INTO counts (backfill_id, shard, purged) VALUES (:id, :shard, :purged)
ON CONFLICT DO UPDATE SET purged = purged + excluded.purged

-- name: failure_counters
-- The counters of failed runs and of purged dead letters, and the purged ones counted row by row.
SELECT coalesce(sum(n.failed_runs), 0) AS failed_runs,
       coalesce(sum(n.purged), 0) AS purged,
       (SELECT count(*) FROM chunks c INDEXED BY chunks_dead
        WHERE c.backfill_id = :id AND c.status = 'ABANDONED' AND c.purged_at IS NOT NULL)
         AS purged_rows
FROM counts n
WHERE n.backfill_id = :id
