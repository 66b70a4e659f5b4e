-- Times are seconds since 1970. Every statement sets them; there are no defaults.

CREATE TABLE fence (value INTEGER NOT NULL);
INSERT INTO fence VALUES (0);

CREATE TABLE events (
    seq             INTEGER PRIMARY KEY,
    idempotency_key TEXT NOT NULL UNIQUE,
    backfill_id     TEXT NOT NULL,
    type            TEXT NOT NULL,
    payload         TEXT NOT NULL,
    actor           TEXT NOT NULL,
    at              REAL NOT NULL
);
CREATE INDEX events_of_backfill ON events (backfill_id); -- and seq, which is the row's own key

CREATE TABLE selections (
    hash TEXT PRIMARY KEY,
    data BLOB NOT NULL
) WITHOUT ROWID;

CREATE TABLE backfills (
    id                  TEXT PRIMARY KEY,
    job                 TEXT NOT NULL,
    job_version         INTEGER NOT NULL,
    selector            TEXT NOT NULL,
    selection           TEXT NOT NULL REFERENCES selections (hash),
    partitions          INTEGER NOT NULL,
    chunk_size          INTEGER NOT NULL,
    chunk_total         INTEGER NOT NULL,
    planned             INTEGER NOT NULL DEFAULT 0,
    max_concurrent_runs INTEGER NOT NULL,
    queue               TEXT NOT NULL,
    run_order           TEXT NOT NULL,
    retry               TEXT NOT NULL,
    retry_longest       REAL NOT NULL,
    lease_seconds       REAL NOT NULL,
    state               TEXT NOT NULL,
    state_version       INTEGER NOT NULL,
    stopping            TEXT,
    parent_backfill_id  TEXT REFERENCES backfills (id),
    retry_request_id    TEXT,
    group_name          TEXT,
    drift               TEXT,
    error               TEXT,
    created_at          REAL NOT NULL,
    started_at          REAL,
    ended_at            REAL,
    UNIQUE (parent_backfill_id, retry_request_id)
) WITHOUT ROWID;
CREATE INDEX backfills_active ON backfills (queue) WHERE state IN ('PENDING', 'RUNNING', 'PAUSED');
CREATE INDEX backfills_newest ON backfills (created_at);
CREATE INDEX backfills_of_group ON backfills (group_name) WHERE group_name IS NOT NULL;

CREATE TABLE chunks (
    backfill_id    TEXT NOT NULL,
    chunk_index    INTEGER NOT NULL,
    rank           INTEGER NOT NULL,
    first          INTEGER NOT NULL,
    last           INTEGER NOT NULL,
    status         TEXT NOT NULL,
    attempts       INTEGER NOT NULL DEFAULT 0,
    lost           INTEGER NOT NULL DEFAULT 0,
    fence          INTEGER,
    claim_id       TEXT,
    owner          TEXT,
    due            REAL,
    last_processed INTEGER,
    failed_behind  INTEGER,
    holes          TEXT,
    error_class    TEXT,
    error_message  TEXT,
    planned_at     REAL NOT NULL,
    started_at     REAL,
    ended_at       REAL,
    purged_at      REAL,
    PRIMARY KEY (backfill_id, chunk_index)
) WITHOUT ROWID;
-- One partial index per status: an OR over statuses would scan the table.
CREATE INDEX chunks_pending ON chunks (backfill_id, rank) WHERE status = 'PENDING';
CREATE INDEX chunks_failed ON chunks (backfill_id, due) WHERE status = 'FAILED';
CREATE INDEX chunks_running ON chunks (backfill_id, due) WHERE status = 'RUNNING';
CREATE INDEX chunks_dead ON chunks (backfill_id, chunk_index) WHERE status = 'ABANDONED';

-- Counts of ended chunks. The few open ones are counted through their indexes.
CREATE TABLE counts (
    backfill_id TEXT NOT NULL,
    shard       INTEGER NOT NULL,
    complete    INTEGER NOT NULL DEFAULT 0,
    abandoned   INTEGER NOT NULL DEFAULT 0,
    cancelled   INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (backfill_id, shard)
) WITHOUT ROWID;

CREATE TABLE groups (
    name           TEXT PRIMARY KEY,
    hook           TEXT NOT NULL,
    epoch          INTEGER NOT NULL DEFAULT 0,
    completed_seen INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID;

CREATE TABLE workers (
    id              TEXT PRIMARY KEY,
    host            TEXT NOT NULL,
    pid             INTEGER NOT NULL,
    process_started TEXT NOT NULL,
    library         TEXT NOT NULL,
    slots           TEXT NOT NULL,
    unresolved      TEXT NOT NULL,
    started_at      REAL NOT NULL,
    seen_at         REAL NOT NULL,
    ended_at        REAL
) WITHOUT ROWID;
CREATE INDEX workers_live ON workers (seen_at) WHERE ended_at IS NULL;
