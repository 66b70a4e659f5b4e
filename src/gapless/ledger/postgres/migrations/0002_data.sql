-- For the data of blockchains: parameters of jobs, contents of sinks, capabilities of endpoints.

ALTER TABLE gapless.backfills ADD COLUMN spec TEXT NOT NULL DEFAULT '{}';

-- Insert-only. Each row is the nth that the run with this fence reported. Of two rows that overlap,
-- the one with the higher fence is valid, and of equal fences the later one.
CREATE TABLE gapless.coverage (
    sink_id           TEXT NOT NULL,
    network           TEXT NOT NULL,
    dataset           TEXT NOT NULL,
    run_fence         BIGINT NOT NULL,
    nth               BIGINT NOT NULL,
    first             BIGINT NOT NULL,
    last              BIGINT NOT NULL,
    fence             BIGINT NOT NULL,
    first_parent_hash TEXT NOT NULL,
    last_hash         TEXT NOT NULL,
    rows              BIGINT NOT NULL,
    digest            TEXT NOT NULL,
    checks            TEXT NOT NULL,
    unproven          TEXT NOT NULL,
    endpoint          TEXT,
    backfill_id       TEXT NOT NULL,
    at                DOUBLE PRECISION NOT NULL,
    PRIMARY KEY (sink_id, network, dataset, run_fence, nth)
);

CREATE TABLE gapless.endpoints (
    network    TEXT NOT NULL,
    name       TEXT NOT NULL,
    profile    TEXT NOT NULL,
    updated_at DOUBLE PRECISION NOT NULL,
    PRIMARY KEY (network, name)
);
