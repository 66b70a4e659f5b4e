-- Wallets, their syncs, and the passes of those.

-- name: lock_wallets
-- Keeps others from adding or removing wallets: the whole ledger is locked already.
SELECT 1

-- name: add_wallets
INSERT INTO wallets (@NewWallet, added_at)
SELECT @NewWallet, @now FROM (@NewWallet(items)) AS item
WHERE true
ON CONFLICT DO UPDATE SET label = coalesce(excluded.label, label)

-- name: add_address_set
-- A row with this id is equal already, unless it was damaged.
INSERT INTO address_sets (@StoredAddressSet) VALUES (@:StoredAddressSet)
ON CONFLICT DO UPDATE SET chain_id = excluded.chain_id, addresses = excluded.addresses
WHERE addresses <> excluded.addresses OR chain_id <> excluded.chain_id

-- name: address_sets
-- All of them, or the one with this id.
SELECT @StoredAddressSet FROM address_sets WHERE id = :id
UNION ALL
SELECT @StoredAddressSet FROM address_sets WHERE :id IS NULL

-- name: add_syncs
INSERT INTO syncs (@PlannedSync, created_at, updated_at)
SELECT @PlannedSync, @now, @now FROM (@PlannedSync(items)) AS item
WHERE true
ON CONFLICT DO UPDATE
SET network = excluded.network, sink = excluded.sink, first = min(first, excluded.first),
    last = max(last, excluded.last), updated_at = excluded.updated_at

-- name: add_sync_passes
INSERT INTO sync_passes (@SyncPass)
SELECT @SyncPass FROM (@SyncPass(items)) AS item
WHERE true
ON CONFLICT DO NOTHING

-- name: inherit_syncs
-- What retries a pass is a pass of the same syncs.
INSERT INTO sync_passes (@SyncPass)
SELECT @p.SyncName, :child, p.address_set
FROM sync_passes p
WHERE p.backfill_id = :parent
ON CONFLICT DO NOTHING

-- name: remove_wallet
DELETE FROM sync_passes WHERE wallet_group = :group AND address = :address;
DELETE FROM syncs WHERE wallet_group = :group AND address = :address;
DELETE FROM wallets WHERE wallet_group = :group AND address = :address RETURNING address

-- name: still_needed
-- Of these passes, those of syncs that there are.
SELECT value FROM json_each(:ids)
WHERE EXISTS (SELECT 1 FROM sync_passes p WHERE p.backfill_id = value)

-- name: wallet
SELECT @StoredWallet FROM wallets WHERE wallet_group = :group AND address = :address

-- name: wallet_page
SELECT @StoredWallet
FROM wallets
WHERE (wallet_group, address) > (:after_group, :after_address)
  AND (:group IS NULL OR wallet_group = :group)
ORDER BY wallet_group, address
LIMIT :limit

-- Listing syncs: each statement finds them by an index, in the order of their keys.

-- part: syncs_listed
SELECT @s.PlannedSync, s.created_at, s.updated_at,
       (SELECT w.label FROM wallets w
        WHERE w.wallet_group = s.wallet_group AND w.address = s.address) AS label,
       (SELECT json_group_array(p.backfill_id) FROM sync_passes p
        WHERE p.wallet_group = s.wallet_group AND p.address = s.address
          AND p.chain_id = s.chain_id AND p.sink_id = s.sink_id) AS passes

-- part: sync_chosen
(:group IS NULL OR s.wallet_group = :group) AND (:address IS NULL OR s.address = :address)
  AND (:network IS NULL OR s.network = :network)

-- part: sync_page
ORDER BY s.wallet_group, s.address, s.chain_id, s.sink_id
LIMIT :limit

-- name: syncs
@syncs_listed
FROM syncs s
WHERE (s.wallet_group, s.address, s.chain_id, s.sink_id)
      > (:after_group, :after_address, :after_chain, :after_sink)
  AND @sync_chosen
@sync_page

-- name: syncs_of_group
@syncs_listed
FROM syncs s
WHERE s.wallet_group = :group
  AND (s.address, s.chain_id, s.sink_id) > (:after_address, :after_chain, :after_sink)
  AND @sync_chosen
@sync_page

-- name: syncs_of_address
@syncs_listed
FROM syncs s
WHERE s.address = :address
  AND (s.wallet_group, s.chain_id, s.sink_id) > (:after_group, :after_chain, :after_sink)
  AND @sync_chosen
@sync_page

-- name: syncs_of_network
@syncs_listed
FROM syncs s
WHERE s.network = :network
  AND (s.wallet_group, s.address, s.chain_id, s.sink_id)
      > (:after_group, :after_address, :after_chain, :after_sink)
  AND @sync_chosen
@sync_page

-- name: unfinished_syncs
-- Syncs of passes that have not succeeded.
@syncs_listed
FROM (SELECT DISTINCT @p.SyncName
      FROM (SELECT id FROM backfills INDEXED BY backfills_active
            WHERE state IN ('PENDING', 'RUNNING', 'PAUSED')
            UNION ALL
            SELECT id FROM backfills INDEXED BY backfills_unsuccessful
            WHERE state IN ('FAILED', 'CANCELLED')) AS b
      CROSS JOIN sync_passes p ON p.backfill_id = b.id) AS k
CROSS JOIN syncs s ON s.wallet_group = k.wallet_group AND s.address = k.address
                  AND s.chain_id = k.chain_id AND s.sink_id = k.sink_id
WHERE (s.wallet_group, s.address, s.chain_id, s.sink_id)
      > (:after_group, :after_address, :after_chain, :after_sink)
  AND @sync_chosen
@sync_page

-- name: syncs_of_wallets
@syncs_listed
FROM (@WalletName(items)) AS item
CROSS JOIN syncs s ON s.wallet_group = item.wallet_group AND s.address = item.address

-- The passes of syncs, read for a whole page of syncs at once.

-- name: pass_counters
SELECT b.id, b.parent_backfill_id, b.group_name, b.selection, b.partitions, b.chunk_size,
       b.chunk_total, b.planned, b.run_order, b.state, b.stopping, b.lease_seconds, b.created_at,
       max(b.created_at, coalesce(b.started_at, 0.0), coalesce(b.ended_at, 0.0),
           coalesce(max(n.changed_at), 0.0)) AS changed_at,
       coalesce(sum(n.complete), 0) AS complete, coalesce(sum(n.abandoned), 0) AS abandoned,
       coalesce(sum(n.cancelled), 0) AS cancelled, coalesce(sum(n.failed_runs), 0) AS failed_runs,
       (SELECT c.status FROM chunks c
        WHERE c.backfill_id = b.id AND c.chunk_index = b.chunk_total - 1) AS last_status,
       coalesce(b.spec ->> '$.way', '') AS way
FROM json_each(:ids) AS wanted
CROSS JOIN backfills b ON b.id = wanted.value
LEFT JOIN counts n ON n.backfill_id = b.id
GROUP BY b.id

-- part: open_segments
count(*) AS chunks,
       coalesce(sum(c.last_processed - c.first + 1), 0)
       - coalesce(sum((SELECT sum(value ->> 1 - value ->> 0 + 1) FROM json_each(c.holes))), 0)
         AS done,
       min(min(coalesce(c.last_processed + 1, c.first),
               coalesce(c.holes ->> '$[0][0]', c.last + 1))) AS missing_from,
       min(c.due) AS next_due, max(c.due) AS last_due

-- name: open_segments
-- Of each pass, by status, the chunks that run, wait for a retry or were abandoned: how many, how
-- many positions they have done, and one below which they have done all. Of the pending ones, only the
-- first and the last.
SELECT c.backfill_id, 'RUNNING' AS status, @open_segments
FROM json_each(:ids) AS wanted
CROSS JOIN chunks c INDEXED BY chunks_running ON c.backfill_id = wanted.value
WHERE c.status = 'RUNNING'
GROUP BY c.backfill_id
UNION ALL
SELECT c.backfill_id, 'FAILED', @open_segments
FROM json_each(:ids) AS wanted
CROSS JOIN chunks c INDEXED BY chunks_failed ON c.backfill_id = wanted.value
WHERE c.status = 'FAILED'
GROUP BY c.backfill_id
UNION ALL
SELECT c.backfill_id, 'ABANDONED', @open_segments
FROM json_each(:ids) AS wanted
CROSS JOIN chunks c INDEXED BY chunks_dead ON c.backfill_id = wanted.value
WHERE c.status = 'ABANDONED'
GROUP BY c.backfill_id
UNION ALL
SELECT c.backfill_id, 'PENDING', @open_segments
FROM json_each(:ids) AS wanted
CROSS JOIN chunks c ON c.backfill_id = wanted.value
WHERE c.chunk_index IN (
    (SELECT p.chunk_index FROM chunks p INDEXED BY chunks_pending
     WHERE p.backfill_id = wanted.value AND p.status = 'PENDING' ORDER BY p.rank LIMIT 1),
    (SELECT p.chunk_index FROM chunks p INDEXED BY chunks_pending
     WHERE p.backfill_id = wanted.value AND p.status = 'PENDING' ORDER BY p.rank DESC LIMIT 1))
GROUP BY c.backfill_id

-- name: pass_troubles
-- Of each pass, the latest failure of the chunk to be retried next, else of the first dead letter.
SELECT @c.PassTrouble
FROM json_each(:ids) AS wanted
CROSS JOIN chunks c ON c.backfill_id = wanted.value AND c.chunk_index = coalesce(
    (SELECT f.chunk_index FROM chunks f INDEXED BY chunks_failed
     WHERE f.backfill_id = wanted.value AND f.status = 'FAILED' ORDER BY f.due LIMIT 1),
    (SELECT d.chunk_index FROM chunks d INDEXED BY chunks_dead
     WHERE d.backfill_id = wanted.value AND d.status = 'ABANDONED' ORDER BY d.chunk_index LIMIT 1))

-- name: missing_chunks
SELECT @c.MissingChunk
FROM json_each(:ids) AS wanted
CROSS JOIN chunks c ON c.backfill_id = wanted.value
WHERE c.status <> 'COMPLETE'

-- name: selections
SELECT @s.StoredSelection
FROM json_each(:hashes) AS wanted
CROSS JOIN selections s ON s.hash = wanted.value

-- name: all_syncs
@syncs_listed
FROM syncs s
ORDER BY s.wallet_group, s.address, s.chain_id, s.sink_id

-- name: all_sync_passes
SELECT @SyncPass FROM sync_passes

-- name: missing_sync_passes
-- Retries of passes that are not passes of the same syncs.
SELECT @p.SyncName, b.id AS backfill_id, p.address_set
FROM sync_passes p
JOIN backfills b ON b.parent_backfill_id = p.backfill_id
WHERE NOT EXISTS (SELECT 1 FROM sync_passes c
                  WHERE c.wallet_group = p.wallet_group AND c.address = p.address
                    AND c.chain_id = p.chain_id AND c.sink_id = p.sink_id AND c.backfill_id = b.id)

-- Overrides

-- name: set_overrides
INSERT INTO overrides (@NewOverride, at)
SELECT @NewOverride, @now FROM (@NewOverride(items)) AS item
WHERE true
ON CONFLICT DO UPDATE SET category = excluded.category, note = excluded.note, at = excluded.at

-- name: remove_override
DELETE FROM overrides WHERE (@MovementName) = (@:MovementName) RETURNING at

-- name: remove_overrides_of
DELETE FROM overrides WHERE wallet_group = :group AND address = :address

-- name: overrides
SELECT @StoredOverride
FROM overrides
WHERE wallet_group = :group AND (:address IS NULL OR address = :address)
  AND (:chain IS NULL OR chain_id = :chain)
ORDER BY address, chain_id, block_number, kind, transaction_index, position, batch_position
