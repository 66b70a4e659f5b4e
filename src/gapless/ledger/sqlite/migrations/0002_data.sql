-- For the data of blockchains: parameters of jobs, contents of sinks, capabilities of endpoints.

ALTER TABLE backfills ADD COLUMN spec TEXT NOT NULL DEFAULT '{}';

-- Insert-only. Each row is the nth that the run with this fence reported. Of two rows that overlap,
-- the one with the higher fence is valid, and of equal fences the later one.
CREATE TABLE coverage (
    sink_id           TEXT NOT NULL,
    network           TEXT NOT NULL,
    dataset           TEXT NOT NULL,
    run_fence         INTEGER NOT NULL,
    nth               INTEGER NOT NULL,
    first             INTEGER NOT NULL,
    last              INTEGER NOT NULL,
    fence             INTEGER NOT NULL,
    first_parent_hash TEXT NOT NULL,
    last_hash         TEXT NOT NULL,
    rows              INTEGER NOT NULL,
    digest            TEXT NOT NULL,
    checks            TEXT NOT NULL,
    unproven          TEXT NOT NULL,
    endpoint          TEXT,
    backfill_id       TEXT NOT NULL,
    at                REAL NOT NULL,
    PRIMARY KEY (sink_id, network, dataset, run_fence, nth)
) WITHOUT ROWID;

CREATE TABLE endpoints (
    network    TEXT NOT NULL,
    name       TEXT NOT NULL,
    profile    TEXT NOT NULL,
    updated_at REAL NOT NULL,
    PRIMARY KEY (network, name)
) WITHOUT ROWID;
