-- For following a chain's head: what the leader saw of it, so that every process can tell.

ALTER TABLE gapless.cursors ADD COLUMN head_seen_at DOUBLE PRECISION;
ALTER TABLE gapless.cursors ADD COLUMN head_time DOUBLE PRECISION;
ALTER TABLE gapless.cursors ADD COLUMN trouble TEXT;
