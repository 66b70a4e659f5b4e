-- Times are seconds since 1970. Every statement sets them; there are no defaults.

CREATE SCHEMA gapless;
CREATE TABLE gapless.schema_version (version BIGINT NOT NULL);
INSERT INTO gapless.schema_version VALUES (0);
-- Never with a CACHE: of two claims of one chunk, the later must have the higher fence.
CREATE SEQUENCE gapless.fence;

CREATE TABLE gapless.events (
    seq             BIGINT GENERATED ALWAYS AS IDENTITY,
    idempotency_key TEXT NOT NULL UNIQUE,
    backfill_id     TEXT NOT NULL,
    type            TEXT NOT NULL,
    payload         TEXT NOT NULL,
    actor           TEXT NOT NULL,
    at              DOUBLE PRECISION NOT NULL,
    PRIMARY KEY (backfill_id, seq)
);

CREATE TABLE gapless.selections (
    hash TEXT PRIMARY KEY,
    data BYTEA NOT NULL
);

CREATE TABLE gapless.backfills (
    id                  TEXT PRIMARY KEY,
    job                 TEXT NOT NULL,
    job_version         BIGINT NOT NULL,
    selector            TEXT NOT NULL,
    selection           TEXT NOT NULL REFERENCES gapless.selections (hash),
    partitions          BIGINT NOT NULL,
    chunk_size          BIGINT NOT NULL,
    chunk_total         BIGINT NOT NULL,
    planned             BIGINT NOT NULL DEFAULT 0,
    max_concurrent_runs BIGINT NOT NULL,
    queue               TEXT NOT NULL,
    run_order           TEXT NOT NULL,
    retry               TEXT NOT NULL,
    retry_longest       DOUBLE PRECISION NOT NULL,
    lease_seconds       DOUBLE PRECISION NOT NULL,
    state               TEXT NOT NULL,
    state_version       BIGINT NOT NULL,
    stopping            TEXT,
    parent_backfill_id  TEXT REFERENCES gapless.backfills (id),
    retry_request_id    TEXT,
    group_name          TEXT,
    drift               TEXT,
    error               TEXT,
    created_at          DOUBLE PRECISION NOT NULL,
    started_at          DOUBLE PRECISION,
    ended_at            DOUBLE PRECISION,
    UNIQUE (parent_backfill_id, retry_request_id)
);
CREATE INDEX backfills_active ON gapless.backfills (queue) WHERE state IN ('PENDING', 'RUNNING', 'PAUSED');
CREATE INDEX backfills_newest ON gapless.backfills (created_at);
CREATE INDEX backfills_of_group ON gapless.backfills (group_name) WHERE group_name IS NOT NULL;

CREATE TABLE gapless.chunks (
    backfill_id    TEXT NOT NULL,
    chunk_index    BIGINT NOT NULL,
    rank           BIGINT NOT NULL,
    first          BIGINT NOT NULL,
    last           BIGINT NOT NULL,
    status         TEXT NOT NULL,
    attempts       BIGINT NOT NULL DEFAULT 0,
    lost           BIGINT NOT NULL DEFAULT 0,
    fence          BIGINT,
    claim_id       TEXT,
    owner          TEXT,
    due            DOUBLE PRECISION,
    last_processed BIGINT,
    failed_behind  BIGINT,
    holes          TEXT,
    error_class    TEXT,
    error_message  TEXT,
    planned_at     DOUBLE PRECISION NOT NULL,
    started_at     DOUBLE PRECISION,
    ended_at       DOUBLE PRECISION,
    purged_at      DOUBLE PRECISION,
    PRIMARY KEY (backfill_id, chunk_index)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02);
-- One partial index per status: an OR over statuses would scan the table.
CREATE INDEX chunks_pending ON gapless.chunks (backfill_id, rank) WHERE status = 'PENDING';
CREATE INDEX chunks_failed ON gapless.chunks (backfill_id, due) WHERE status = 'FAILED';
CREATE INDEX chunks_running ON gapless.chunks (backfill_id, due) WHERE status = 'RUNNING';
CREATE INDEX chunks_dead ON gapless.chunks (backfill_id, chunk_index) WHERE status = 'ABANDONED';

-- Counts of ended chunks. The few open ones are counted through their indexes.
CREATE TABLE gapless.counts (
    backfill_id TEXT NOT NULL,
    shard       BIGINT NOT NULL,
    complete    BIGINT NOT NULL DEFAULT 0,
    abandoned   BIGINT NOT NULL DEFAULT 0,
    cancelled   BIGINT NOT NULL DEFAULT 0,
    PRIMARY KEY (backfill_id, shard)
);

CREATE TABLE gapless.groups (
    name           TEXT PRIMARY KEY,
    hook           TEXT NOT NULL,
    epoch          BIGINT NOT NULL DEFAULT 0,
    completed_seen BIGINT NOT NULL DEFAULT 0
);

CREATE TABLE gapless.workers (
    id              TEXT PRIMARY KEY,
    host            TEXT NOT NULL,
    pid             BIGINT NOT NULL,
    process_started TEXT NOT NULL,
    library         TEXT NOT NULL,
    slots           TEXT NOT NULL,
    unresolved      TEXT NOT NULL,
    started_at      DOUBLE PRECISION NOT NULL,
    seen_at         DOUBLE PRECISION NOT NULL,
    ended_at        DOUBLE PRECISION
);
CREATE INDEX workers_live ON gapless.workers (seen_at) WHERE ended_at IS NULL;
