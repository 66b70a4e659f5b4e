-- For runs: how long one may take, and records of those that failed.

ALTER TABLE gapless.backfills ADD COLUMN timeout DOUBLE PRECISION;

-- The latest failed runs of each chunk; adding one deletes the oldest.
CREATE TABLE gapless.attempts (
    backfill_id   TEXT NOT NULL,
    chunk_index   BIGINT NOT NULL,
    fence         BIGINT NOT NULL,
    attempt       BIGINT NOT NULL,
    at            DOUBLE PRECISION NOT NULL,
    worker        TEXT NOT NULL,
    error_class   TEXT NOT NULL,
    error_message TEXT NOT NULL,
    traceback     TEXT,
    PRIMARY KEY (backfill_id, chunk_index, fence)
);
