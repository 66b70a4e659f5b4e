-- What runs have stored in sinks, and what is known of endpoints.

-- name: cover
-- Items: the columns up to `endpoint`. What was told before is left as it is.
INSERT INTO gapless.coverage (
    sink_id, network, dataset, run_fence, nth, first, last, fence, first_parent_hash, last_hash,
    rows, digest, checks, unproven, endpoint, backfill_id, at)
SELECT item ->> 0, item ->> 1, item ->> 2, (item ->> 3)::bigint, (item ->> 4)::bigint,
       (item ->> 5)::bigint, (item ->> 6)::bigint, (item ->> 7)::bigint, item ->> 8, item ->> 9,
       (item ->> 10)::bigint, item ->> 11, item ->> 12, item ->> 13, item ->> 14, :id, @now
FROM json_array_elements(:items::json) AS item
ON CONFLICT DO NOTHING

-- name: coverage
-- In the order of precedence: of two rows that overlap, the later one holds.
SELECT dataset, first, last, fence, first_parent_hash, last_hash, rows, digest, checks, unproven,
       endpoint
FROM gapless.coverage
WHERE sink_id = :sink_id AND network = :network AND (:dataset::text IS NULL OR dataset = :dataset)
ORDER BY dataset, fence, run_fence, nth

-- name: profiles
SELECT name, profile FROM gapless.endpoints WHERE network = :network ORDER BY name

-- name: keep_profiles
-- Items: [name, profile]
INSERT INTO gapless.endpoints (network, name, profile, updated_at)
SELECT :network, item ->> 0, item ->> 1, @now
FROM json_array_elements(:items::json) AS item
ON CONFLICT (network, name) DO UPDATE
SET profile = excluded.profile, updated_at = excluded.updated_at
