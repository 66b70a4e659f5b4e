-- What the data of blockchains needs: parameters of jobs, what sinks hold, what endpoints can do.

ALTER TABLE backfills ADD COLUMN spec TEXT NOT NULL DEFAULT '{}';

-- Insert-only. Of two rows that overlap, the higher (fence, nth) tells what is stored now.
CREATE TABLE coverage (
    sink_id     TEXT NOT NULL,
    network     TEXT NOT NULL,
    dataset     TEXT NOT NULL,
    fence       INTEGER NOT NULL,
    nth         INTEGER NOT NULL,
    first       INTEGER NOT NULL,
    last        INTEGER NOT NULL,
    rows        INTEGER NOT NULL,
    digest      TEXT NOT NULL,
    parent_hash TEXT NOT NULL,
    last_hash   TEXT NOT NULL,
    proven      TEXT NOT NULL,
    unproven    TEXT NOT NULL,
    endpoint    TEXT,
    backfill_id TEXT NOT NULL,
    at          REAL NOT NULL,
    PRIMARY KEY (sink_id, network, dataset, fence, nth)
) WITHOUT ROWID;

CREATE TABLE endpoints (
    network    TEXT NOT NULL,
    name       TEXT NOT NULL,
    profile    TEXT NOT NULL,
    updated_at REAL NOT NULL,
    PRIMARY KEY (network, name)
) WITHOUT ROWID;
