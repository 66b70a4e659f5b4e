-- For following a chain's head: what the leader saw of it, so that every process can tell.

ALTER TABLE cursors ADD COLUMN head_seen_at REAL;
ALTER TABLE cursors ADD COLUMN head_time REAL;
ALTER TABLE cursors ADD COLUMN trouble TEXT;
