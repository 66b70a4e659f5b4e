-- For queues: which of them are paused, and what became of their chunks.

CREATE TABLE paused_queues (
    name      TEXT PRIMARY KEY,
    paused_at REAL NOT NULL
) WITHOUT ROWID;

-- Of queues, what deleted backfills had counted.
CREATE TABLE folded_queues (
    name      TEXT PRIMARY KEY,
    processed INTEGER NOT NULL,
    failed    INTEGER NOT NULL
) WITHOUT ROWID;

ALTER TABLE counts ADD COLUMN failed_runs INTEGER NOT NULL DEFAULT 0;
ALTER TABLE counts ADD COLUMN purged INTEGER NOT NULL DEFAULT 0;
-- Of both, those of chunks whose rows were deleted.
ALTER TABLE counts ADD COLUMN folded_failed_runs INTEGER NOT NULL DEFAULT 0;
ALTER TABLE counts ADD COLUMN folded_purged INTEGER NOT NULL DEFAULT 0;
-- Completed chunks in the minute of the latest completion, and in the minute before it. Minutes are
-- counted since 1970.
ALTER TABLE counts ADD COLUMN minute INTEGER NOT NULL DEFAULT 0;
ALTER TABLE counts ADD COLUMN in_minute INTEGER NOT NULL DEFAULT 0;
ALTER TABLE counts ADD COLUMN in_previous_minute INTEGER NOT NULL DEFAULT 0;

INSERT INTO counts (backfill_id, shard, failed_runs)
SELECT backfill_id, 0, count(*) FROM events WHERE type = 'ChunkFailed' GROUP BY backfill_id
ON CONFLICT DO UPDATE SET failed_runs = excluded.failed_runs;

INSERT INTO counts (backfill_id, shard, purged)
SELECT backfill_id, 0, count(*) FROM chunks
WHERE status = 'ABANDONED' AND purged_at IS NOT NULL
GROUP BY backfill_id
ON CONFLICT DO UPDATE SET purged = excluded.purged;
