-- For runs: how long one may take, and records of those that failed.

ALTER TABLE backfills ADD COLUMN timeout REAL;

-- The latest failed runs of each chunk; adding one deletes the oldest.
CREATE TABLE attempts (
    backfill_id   TEXT NOT NULL,
    chunk_index   INTEGER NOT NULL,
    fence         INTEGER NOT NULL,
    attempt       INTEGER NOT NULL,
    at            REAL NOT NULL,
    worker        TEXT NOT NULL,
    error_class   TEXT NOT NULL,
    error_message TEXT NOT NULL,
    traceback     TEXT,
    PRIMARY KEY (backfill_id, chunk_index, fence)
) WITHOUT ROWID;
