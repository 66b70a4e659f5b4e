-- What the data of blockchains needs: parameters of jobs, what sinks hold, what endpoints can do.

ALTER TABLE gapless.backfills ADD COLUMN spec TEXT NOT NULL DEFAULT '{}';

-- Insert-only. Of two rows that overlap, the higher (fence, nth) tells what is stored now.
CREATE TABLE gapless.coverage (
    sink_id     TEXT NOT NULL,
    network     TEXT NOT NULL,
    dataset     TEXT NOT NULL,
    fence       BIGINT NOT NULL,
    nth         BIGINT NOT NULL,
    first       BIGINT NOT NULL,
    last        BIGINT NOT NULL,
    rows        BIGINT NOT NULL,
    digest      TEXT NOT NULL,
    parent_hash TEXT NOT NULL,
    last_hash   TEXT NOT NULL,
    proven      TEXT NOT NULL,
    unproven    TEXT NOT NULL,
    endpoint    TEXT,
    backfill_id TEXT NOT NULL,
    at          DOUBLE PRECISION NOT NULL,
    PRIMARY KEY (sink_id, network, dataset, fence, nth)
);

CREATE TABLE gapless.endpoints (
    network    TEXT NOT NULL,
    name       TEXT NOT NULL,
    profile    TEXT NOT NULL,
    updated_at DOUBLE PRECISION NOT NULL,
    PRIMARY KEY (network, name)
);
