-- Wallets, their syncs, and the passes of those.
-- `claims.sql` explains the form of the conditions. Here, given rows are found by
-- `LATERAL (… OFFSET 0)`: no plan can read the table first and then look for each row of it.

-- name: lock_wallets
-- Keeps others from adding or removing wallets until the commit.
SELECT pg_advisory_xact_lock(hashtext('gapless.wallets'), 0)

-- name: add_wallets
INSERT INTO gapless.wallets AS w (@NewWallet, added_at)
SELECT @NewWallet, @now FROM (@NewWallet(items)) AS item
ON CONFLICT (wallet_group, address) DO UPDATE SET label = coalesce(excluded.label, w.label)

-- name: add_address_set
-- A row with this id is equal already, unless it was damaged.
INSERT INTO gapless.address_sets AS a (@StoredAddressSet) VALUES (@:StoredAddressSet)
ON CONFLICT (id) DO UPDATE SET chain_id = excluded.chain_id, addresses = excluded.addresses
WHERE a.addresses <> excluded.addresses OR a.chain_id <> excluded.chain_id

-- name: address_sets
-- All of them, or the one with this id.
SELECT @StoredAddressSet FROM gapless.address_sets WHERE id = :id
UNION ALL
SELECT @StoredAddressSet FROM gapless.address_sets WHERE :id::text IS NULL

-- name: add_syncs
INSERT INTO gapless.syncs AS s (@PlannedSync, created_at, updated_at)
SELECT @PlannedSync, @now, @now FROM (@PlannedSync(items)) AS item
ON CONFLICT (wallet_group, address, chain_id, sink_id) DO UPDATE
SET network = excluded.network, sink = excluded.sink, first = least(s.first, excluded.first),
    last = greatest(s.last, excluded.last), updated_at = excluded.updated_at

-- name: add_sync_passes
INSERT INTO gapless.sync_passes (@SyncPass)
SELECT @SyncPass FROM (@SyncPass(items)) AS item
ON CONFLICT DO NOTHING

-- name: inherit_syncs
-- What retries a pass is a pass of the same syncs.
INSERT INTO gapless.sync_passes (@SyncPass)
SELECT @p.SyncName, :child, p.address_set
FROM gapless.sync_passes p
WHERE p.backfill_id = :parent
ON CONFLICT DO NOTHING

-- name: remove_wallet
WITH passes AS (
    DELETE FROM gapless.sync_passes WHERE wallet_group = :group AND address = :address
), syncs AS (
    DELETE FROM gapless.syncs WHERE wallet_group = :group AND address = :address
)
DELETE FROM gapless.wallets WHERE wallet_group = :group AND address = :address RETURNING address

-- name: still_needed
-- Of these passes, those of syncs that there are.
SELECT wanted.id FROM json_array_elements_text(:ids::json) AS wanted(id)
WHERE EXISTS (SELECT 1 FROM gapless.sync_passes p WHERE p.backfill_id = wanted.id)

-- name: wallet
SELECT @StoredWallet FROM gapless.wallets WHERE wallet_group = :group AND address = :address

-- name: wallet_page
SELECT @StoredWallet
FROM gapless.wallets
WHERE (wallet_group, address) > (:after_group, :after_address)
  AND (:group::text IS NULL OR wallet_group = :group)
ORDER BY wallet_group, address
LIMIT :limit

-- Listing syncs: each statement finds them by an index, in the order of their keys.

-- part: syncs_listed
SELECT @s.PlannedSync, s.created_at, s.updated_at,
       (SELECT w.label FROM gapless.wallets w
        WHERE w.wallet_group = s.wallet_group AND w.address = s.address) AS label,
       (SELECT coalesce(json_agg(p.backfill_id), '[]')::text FROM gapless.sync_passes p
        WHERE p.wallet_group = s.wallet_group AND p.address = s.address
          AND p.chain_id = s.chain_id AND p.sink_id = s.sink_id) AS passes

-- part: sync_chosen
(:group::text IS NULL OR s.wallet_group = :group)
  AND (:address::text IS NULL OR s.address = :address)
  AND (:network::text IS NULL OR s.network = :network)

-- part: sync_page
ORDER BY s.wallet_group, s.address, s.chain_id, s.sink_id
LIMIT :limit

-- name: syncs
@syncs_listed
FROM gapless.syncs s
WHERE (s.wallet_group, s.address, s.chain_id, s.sink_id)
      > (:after_group, :after_address, :after_chain, :after_sink)
  AND @sync_chosen
@sync_page

-- name: syncs_of_group
@syncs_listed
FROM gapless.syncs s
WHERE s.wallet_group = :group
  AND (s.address, s.chain_id, s.sink_id) > (:after_address, :after_chain, :after_sink)
  AND @sync_chosen
@sync_page

-- name: syncs_of_address
@syncs_listed
FROM gapless.syncs s
WHERE s.address = :address
  AND (s.wallet_group, s.chain_id, s.sink_id) > (:after_group, :after_chain, :after_sink)
  AND @sync_chosen
@sync_page

-- name: syncs_of_network
@syncs_listed
FROM gapless.syncs s
WHERE s.network = :network
  AND (s.wallet_group, s.address, s.chain_id, s.sink_id)
      > (:after_group, :after_address, :after_chain, :after_sink)
  AND @sync_chosen
@sync_page

-- name: unfinished_syncs
-- Syncs of passes that have not succeeded.
@syncs_listed
FROM (SELECT DISTINCT @p.SyncName
      FROM (SELECT id FROM gapless.backfills WHERE state IN ('PENDING', 'RUNNING', 'PAUSED')
            UNION ALL
            SELECT id FROM gapless.backfills WHERE state IN ('FAILED', 'CANCELLED')) AS b
      CROSS JOIN LATERAL (SELECT * FROM gapless.sync_passes p
                          WHERE p.backfill_id = b.id OFFSET 0) AS p) AS k
CROSS JOIN LATERAL (SELECT * FROM gapless.syncs s
                    WHERE s.wallet_group = k.wallet_group AND s.address = k.address
                      AND s.chain_id = k.chain_id AND s.sink_id = k.sink_id
                    OFFSET 0) AS s
WHERE (s.wallet_group, s.address, s.chain_id, s.sink_id)
      > (:after_group, :after_address, :after_chain, :after_sink)
  AND @sync_chosen
@sync_page

-- name: syncs_of_wallets
@syncs_listed
FROM (@WalletName(items)) AS item
CROSS JOIN LATERAL (SELECT * FROM gapless.syncs s
                    WHERE s.wallet_group = item.wallet_group AND s.address = item.address
                    OFFSET 0) AS s

-- The passes of syncs, read for a whole page of syncs at once.

-- name: pass_counters
SELECT b.id, b.parent_backfill_id, b.group_name, b.selection, b.partitions, b.chunk_size,
       b.chunk_total, b.planned, b.run_order, b.state, b.stopping, b.lease_seconds, b.created_at,
       greatest(b.created_at, b.started_at, b.ended_at, n.changed_at) AS changed_at,
       n.complete, n.abandoned, n.cancelled, n.failed_runs,
       (SELECT c.status FROM gapless.chunks c
        WHERE c.backfill_id = b.id AND c.chunk_index = b.chunk_total - 1) AS last_status,
       coalesce(b.spec::json ->> 'way', '') AS way
FROM json_array_elements_text(:ids::json) AS wanted(id)
CROSS JOIN LATERAL (SELECT * FROM gapless.backfills b WHERE b.id = wanted.id OFFSET 0) AS b
CROSS JOIN LATERAL (
    SELECT coalesce(sum(n.complete), 0)::bigint AS complete,
           coalesce(sum(n.abandoned), 0)::bigint AS abandoned,
           coalesce(sum(n.cancelled), 0)::bigint AS cancelled,
           coalesce(sum(n.failed_runs), 0)::bigint AS failed_runs,
           max(n.changed_at) AS changed_at
    FROM gapless.counts n WHERE n.backfill_id = b.id) AS n

-- part: open_segments
-- `c` are the chunks of one status.
count(*) AS chunks,
       (coalesce(sum(c.last_processed - c.first + 1), 0)
        - coalesce(sum((SELECT sum((h ->> 1)::bigint - (h ->> 0)::bigint + 1)
                        FROM json_array_elements(c.holes::json) AS h)), 0))::bigint AS done,
       min(least(coalesce(c.last_processed + 1, c.first),
                 (c.holes::json #>> '{0,0}')::bigint)) AS missing_from,
       min(c.due) AS next_due, max(c.due) AS last_due

-- name: open_segments
-- Of each pass, by status, the chunks that run, wait for a retry or were abandoned: how many, how
-- many positions they have done, and one below which they have done all. Of the pending ones, only the
-- first and the last.
SELECT wanted.id AS backfill_id, found.*
FROM json_array_elements_text(:ids::json) AS wanted(id)
CROSS JOIN LATERAL (
    SELECT 'RUNNING' AS status, @open_segments
    FROM (SELECT * FROM gapless.chunks c
          WHERE c.backfill_id = wanted.id AND c.status = 'RUNNING' ORDER BY c.due) AS c
    UNION ALL
    SELECT 'FAILED', @open_segments
    FROM (SELECT * FROM gapless.chunks c
          WHERE c.backfill_id = wanted.id AND c.status = 'FAILED' ORDER BY c.due) AS c
    UNION ALL
    SELECT 'ABANDONED', @open_segments
    FROM (SELECT * FROM gapless.chunks c
          WHERE c.backfill_id = wanted.id AND c.status = 'ABANDONED' ORDER BY c.chunk_index) AS c
    UNION ALL
    SELECT 'PENDING', @open_segments
    FROM ((SELECT * FROM gapless.chunks c
           WHERE c.backfill_id = wanted.id AND c.status = 'PENDING' ORDER BY c.rank LIMIT 1)
          UNION ALL
          (SELECT * FROM gapless.chunks c
           WHERE c.backfill_id = wanted.id AND c.status = 'PENDING' ORDER BY c.rank DESC LIMIT 1))
         AS c) AS found
WHERE found.chunks > 0

-- name: pass_troubles
-- Of each pass, the latest failure of the chunk to be retried next, else of the first dead letter.
SELECT @c.PassTrouble
FROM json_array_elements_text(:ids::json) AS wanted(id)
CROSS JOIN LATERAL (
    (SELECT * FROM gapless.chunks f
     WHERE f.backfill_id = wanted.id AND f.status = 'FAILED' ORDER BY f.due LIMIT 1)
    UNION ALL
    (SELECT * FROM gapless.chunks d
     WHERE d.backfill_id = wanted.id AND d.status = 'ABANDONED' ORDER BY d.chunk_index LIMIT 1)
    LIMIT 1) AS c

-- name: missing_chunks
SELECT @c.MissingChunk
FROM json_array_elements_text(:ids::json) AS wanted(id)
CROSS JOIN LATERAL (SELECT * FROM gapless.chunks c
                    WHERE c.backfill_id = wanted.id AND c.status || '' <> 'COMPLETE'
                    OFFSET 0) AS c

-- name: selections
SELECT @s.StoredSelection
FROM json_array_elements_text(:hashes::json) AS wanted(hash)
CROSS JOIN LATERAL (SELECT * FROM gapless.selections s
                    WHERE s.hash = wanted.hash OFFSET 0) AS s

-- name: all_syncs
@syncs_listed
FROM gapless.syncs s
ORDER BY s.wallet_group, s.address, s.chain_id, s.sink_id

-- name: all_sync_passes
SELECT @SyncPass FROM gapless.sync_passes

-- name: missing_sync_passes
-- Retries of passes that are not passes of the same syncs.
SELECT @p.SyncName, b.id AS backfill_id, p.address_set
FROM gapless.sync_passes p
JOIN gapless.backfills b ON b.parent_backfill_id = p.backfill_id
WHERE NOT EXISTS (SELECT 1 FROM gapless.sync_passes c
                  WHERE c.wallet_group = p.wallet_group AND c.address = p.address
                    AND c.chain_id = p.chain_id AND c.sink_id = p.sink_id AND c.backfill_id = b.id)

-- Overrides

-- name: set_overrides
INSERT INTO gapless.overrides (@NewOverride, at)
SELECT @NewOverride, @now FROM (@NewOverride(items)) AS item
ON CONFLICT (@MovementName) DO UPDATE
SET category = excluded.category, note = excluded.note, at = excluded.at

-- name: remove_override
DELETE FROM gapless.overrides WHERE (@MovementName) = (@:MovementName) RETURNING at

-- name: remove_overrides_of
DELETE FROM gapless.overrides WHERE wallet_group = :group AND address = :address

-- name: overrides
SELECT @StoredOverride
FROM gapless.overrides
WHERE wallet_group = :group AND (:address::text IS NULL OR address = :address)
  AND (:chain::bigint IS NULL OR chain_id = :chain)
ORDER BY address, chain_id, block_number, kind, transaction_index, position, batch_position
