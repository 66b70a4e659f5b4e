-- The workers of this ledger.

-- name: add_worker
INSERT INTO gapless.workers (id, host, pid, process_started, library, slots, unresolved, started_at, seen_at)
VALUES (:id, :host, :pid, :process_started, :library, :slots, '{}', @now, @now)

-- name: touch_worker
UPDATE gapless.workers SET seen_at = @now, unresolved = :unresolved, ended_at = NULL WHERE id = :id

-- name: end_worker
UPDATE gapless.workers SET ended_at = @now WHERE id = :id

-- name: live_workers
SELECT @StoredWorker
FROM gapless.workers
WHERE ended_at IS NULL AND seen_at > @now - :within::float8

-- name: workers_of_host
SELECT @HostedProcess FROM gapless.workers WHERE ended_at IS NULL AND host = :host

-- name: end_leases
-- Ends the leases of a dead worker; the claim that recovers one counts the loss.
-- Leases whose rows are locked are skipped; they run out.
WITH free AS MATERIALIZED (
    SELECT backfill_id, chunk_index FROM gapless.chunks
    WHERE status = 'RUNNING' AND owner = :owner
    FOR UPDATE SKIP LOCKED)
UPDATE gapless.chunks c SET due = @now
FROM free
WHERE (c.backfill_id, c.chunk_index) BETWEEN (free.backfill_id, free.chunk_index)
                                         AND (free.backfill_id, free.chunk_index)
RETURNING c.chunk_index
