-- For following a chain's head: backfills that get more chunks for as long as they exist.

ALTER TABLE backfills ADD COLUMN standing INTEGER NOT NULL DEFAULT 0;
ALTER TABLE backfills ADD COLUMN follow TEXT;
ALTER TABLE backfills ADD COLUMN precedence INTEGER NOT NULL DEFAULT 0;
CREATE INDEX backfills_of_follow ON backfills (follow, precedence, id) WHERE follow IS NOT NULL;
CREATE INDEX backfills_of_selection ON backfills (selection);

ALTER TABLE chunks ADD COLUMN payload TEXT;
ALTER TABLE chunks ADD COLUMN write_fence INTEGER;

-- Of the ended chunks, those whose rows were deleted; and deleted backfills of the same follow.
ALTER TABLE counts ADD COLUMN folded_complete INTEGER NOT NULL DEFAULT 0;
ALTER TABLE counts ADD COLUMN folded_abandoned INTEGER NOT NULL DEFAULT 0;
ALTER TABLE counts ADD COLUMN folded_cancelled INTEGER NOT NULL DEFAULT 0;
ALTER TABLE counts ADD COLUMN folded_backfills INTEGER NOT NULL DEFAULT 0;

CREATE TABLE cursors (
    follow      TEXT PRIMARY KEY,
    backfill_id TEXT NOT NULL,
    owner       TEXT,
    lease_until REAL,
    fence       INTEGER NOT NULL,
    version     INTEGER NOT NULL,
    state       TEXT NOT NULL,
    updated_at  REAL NOT NULL
) WITHOUT ROWID;
