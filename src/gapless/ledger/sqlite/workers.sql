-- The workers of this ledger.

-- name: add_worker
INSERT INTO workers (id, host, pid, process_started, library, slots, unresolved, started_at, seen_at)
VALUES (:id, :host, :pid, :process_started, :library, :slots, '{}', @now, @now)

-- name: touch_worker
UPDATE workers SET seen_at = @now, unresolved = :unresolved, ended_at = NULL WHERE id = :id

-- name: end_worker
UPDATE workers SET ended_at = @now WHERE id = :id

-- name: live_workers
SELECT @StoredWorker
FROM workers
WHERE ended_at IS NULL AND seen_at > @now - :within

-- name: workers_of_host
SELECT @HostedProcess FROM workers WHERE ended_at IS NULL AND host = :host

-- name: end_leases
-- Ends the leases of a dead worker; the claim that recovers one counts the loss.
UPDATE chunks SET due = @now
WHERE (backfill_id, chunk_index) IN (
    SELECT backfill_id, chunk_index FROM chunks INDEXED BY chunks_running
    WHERE status = 'RUNNING' AND owner = :owner)
RETURNING chunk_index
