-- For queues: which of them are paused, and what became of their chunks.

CREATE TABLE gapless.paused_queues (
    name      TEXT PRIMARY KEY,
    paused_at DOUBLE PRECISION NOT NULL
);

-- Of queues, what deleted backfills had counted.
CREATE TABLE gapless.folded_queues (
    name      TEXT PRIMARY KEY,
    processed BIGINT NOT NULL,
    failed    BIGINT NOT NULL
);

ALTER TABLE gapless.counts ADD COLUMN failed_runs BIGINT NOT NULL DEFAULT 0;
ALTER TABLE gapless.counts ADD COLUMN purged BIGINT NOT NULL DEFAULT 0;
-- Of both, those of chunks whose rows were deleted.
ALTER TABLE gapless.counts ADD COLUMN folded_failed_runs BIGINT NOT NULL DEFAULT 0;
ALTER TABLE gapless.counts ADD COLUMN folded_purged BIGINT NOT NULL DEFAULT 0;
-- Completed chunks in the minute of the latest completion, and in the minute before it. Minutes are
-- counted since 1970.
ALTER TABLE gapless.counts ADD COLUMN minute BIGINT NOT NULL DEFAULT 0;
ALTER TABLE gapless.counts ADD COLUMN in_minute BIGINT NOT NULL DEFAULT 0;
ALTER TABLE gapless.counts ADD COLUMN in_previous_minute BIGINT NOT NULL DEFAULT 0;

INSERT INTO gapless.counts (backfill_id, shard, failed_runs)
SELECT backfill_id, 0, count(*) FROM gapless.events WHERE type = 'ChunkFailed' GROUP BY backfill_id
ON CONFLICT (backfill_id, shard) DO UPDATE SET failed_runs = excluded.failed_runs;

INSERT INTO gapless.counts (backfill_id, shard, purged)
SELECT backfill_id, 0, count(*) FROM gapless.chunks
WHERE status = 'ABANDONED' AND purged_at IS NOT NULL
GROUP BY backfill_id
ON CONFLICT (backfill_id, shard) DO UPDATE SET purged = excluded.purged;
