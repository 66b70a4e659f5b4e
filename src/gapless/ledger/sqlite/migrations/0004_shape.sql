-- The records of a sink are the truth about what it holds: the ledger keeps no copy of them.
DROP TABLE coverage;

ALTER TABLE chunks RENAME COLUMN failed_behind TO last_failure_position;
