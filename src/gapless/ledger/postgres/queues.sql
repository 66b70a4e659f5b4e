-- Queues: pausing them, and their numbers.
-- `claims.sql` explains the form of the conditions.

-- part: queue_paused
-- Whether the queue of `b` is paused.
EXISTS (SELECT 1 FROM gapless.paused_queues p WHERE p.name = b.queue)

-- part: minute
-- The current minute since 1970.
floor(@now / 60)::bigint

-- name: pause_queue
INSERT INTO gapless.paused_queues (name, paused_at) VALUES (:name, @now)
ON CONFLICT DO NOTHING
RETURNING name

-- name: resume_queue
DELETE FROM gapless.paused_queues WHERE name = :name RETURNING name

-- name: paused_queues
SELECT @PausedQueue FROM gapless.paused_queues

-- name: queue_totals
-- Every queue that has or had a backfill, and what became of the chunks. Of the minute before the
-- current one, the share that lies within the last 60 seconds counts.
SELECT name, sum(processed)::bigint AS processed, sum(failed)::bigint AS failed, sum(dead)::bigint AS dead,
       sum(completed_per_minute) AS completed_per_minute
FROM (SELECT b.queue AS name,
             coalesce(sum(n.complete), 0) AS processed,
             coalesce(sum(n.failed_runs), 0) AS failed,
             coalesce(sum(n.abandoned - n.folded_abandoned - n.purged + n.folded_purged), 0)
               AS dead,
             coalesce(sum(CASE @minute - n.minute
                          WHEN 0 THEN n.in_minute
                                      + n.in_previous_minute * (@minute + 1 - @now / 60)
                          WHEN 1 THEN n.in_minute * (@minute + 1 - @now / 60) END), 0)
               AS completed_per_minute
      FROM gapless.backfills b
      LEFT JOIN gapless.counts n ON n.backfill_id = b.id
      GROUP BY b.queue
      UNION ALL
      SELECT name, processed, failed, 0, 0 FROM gapless.folded_queues) AS totals
GROUP BY name

-- name: queue_backlog
-- The open chunks of every queue that has some, and how long the oldest ones have waited that a slot
-- could take: pending ones since they were planned, failed ones since their retry was due. Chunks are
-- planned by rank, so the pending one with the lowest rank was planned first.
WITH open AS MATERIALIZED (
    SELECT b.queue, b.state <> 'PAUSED' AND b.stopping IS NULL AS runs, b.max_concurrent_runs,
           CASE WHEN b.stopping IS NULL THEN b.chunk_total ELSE b.planned END
           - (SELECT coalesce(sum(n.complete + n.abandoned + n.cancelled), 0) FROM gapless.counts n
              WHERE n.backfill_id = b.id) AS unended,
           (SELECT count(*) FROM (SELECT FROM gapless.chunks c
                                  WHERE c.backfill_id = b.id AND c.status = 'RUNNING'
                                  ORDER BY c.due) AS r) AS running,
           (SELECT count(*) FROM (SELECT FROM gapless.chunks c
                                  WHERE c.backfill_id = b.id AND c.status = 'FAILED'
                                  ORDER BY c.due) AS f) AS failed,
           (SELECT c.due FROM gapless.chunks c
            WHERE c.backfill_id = b.id AND c.status = 'FAILED'
            ORDER BY c.due LIMIT 1) AS next_retry_at,
           coalesce((SELECT c.planned_at FROM gapless.chunks c
                     WHERE c.backfill_id = b.id AND c.status = 'PENDING'
                     ORDER BY c.rank LIMIT 1),
                    CASE b.planned WHEN 0 THEN b.created_at END) AS pending_since
    FROM gapless.backfills b
    WHERE b.state IN ('PENDING', 'RUNNING', 'PAUSED')
)
SELECT queue AS name,
       sum(running)::bigint AS active,
       sum(unended - running - failed)::bigint AS pending,
       sum(failed)::bigint AS retry,
       min(next_retry_at) AS next_retry_at,
       @now - min(pending_since) FILTER (WHERE runs AND running < max_concurrent_runs)
         AS pending_wait,
       @now - min(next_retry_at) FILTER (WHERE runs AND running < max_concurrent_runs
                                           AND next_retry_at <= @now) AS retry_wait
FROM open
GROUP BY queue

-- name: count_purged
INSERT INTO gapless.counts AS n (backfill_id, shard, purged) VALUES (:id, :shard, :purged)
ON CONFLICT (backfill_id, shard) DO UPDATE SET purged = n.purged + excluded.purged

-- name: failure_counters
-- The counters of failed runs and of purged dead letters, and the purged ones counted row by row.
SELECT coalesce(sum(n.failed_runs), 0)::bigint AS failed_runs,
       coalesce(sum(n.purged), 0)::bigint AS purged,
       (SELECT count(*) FROM gapless.chunks c
        WHERE c.backfill_id = :id AND c.status = 'ABANDONED' AND c.purged_at IS NOT NULL)
         AS purged_rows
FROM gapless.counts n
WHERE n.backfill_id = :id
