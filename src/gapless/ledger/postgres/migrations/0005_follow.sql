-- For following a chain's head: backfills that get more chunks for as long as they exist.

ALTER TABLE gapless.backfills ADD COLUMN standing BOOLEAN NOT NULL DEFAULT false;
ALTER TABLE gapless.backfills ADD COLUMN follow TEXT;
ALTER TABLE gapless.backfills ADD COLUMN precedence BIGINT NOT NULL DEFAULT 0;
CREATE INDEX backfills_of_follow ON gapless.backfills (follow, precedence, id) WHERE follow IS NOT NULL;
CREATE INDEX backfills_of_selection ON gapless.backfills (selection);

ALTER TABLE gapless.chunks ADD COLUMN payload TEXT;
ALTER TABLE gapless.chunks ADD COLUMN write_fence BIGINT;

-- Of the ended chunks, those whose rows were deleted; and deleted backfills of the same follow.
ALTER TABLE gapless.counts ADD COLUMN folded_complete BIGINT NOT NULL DEFAULT 0;
ALTER TABLE gapless.counts ADD COLUMN folded_abandoned BIGINT NOT NULL DEFAULT 0;
ALTER TABLE gapless.counts ADD COLUMN folded_cancelled BIGINT NOT NULL DEFAULT 0;
ALTER TABLE gapless.counts ADD COLUMN folded_backfills BIGINT NOT NULL DEFAULT 0;

CREATE TABLE gapless.cursors (
    follow      TEXT PRIMARY KEY,
    backfill_id TEXT NOT NULL,
    owner       TEXT,
    lease_until DOUBLE PRECISION,
    fence       BIGINT NOT NULL,
    version     BIGINT NOT NULL,
    state       TEXT NOT NULL,
    updated_at  DOUBLE PRECISION NOT NULL
);
