-- What runs have stored in sinks, and what is known of endpoints.

-- name: cover
-- Items: the columns up to `endpoint`. What was told before is left as it is.
INSERT INTO coverage (
    sink_id, network, dataset, run_fence, nth, first, last, fence, first_parent_hash, last_hash,
    rows, digest, checks, unproven, endpoint, backfill_id, at)
SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5, value ->> 6,
       value ->> 7, value ->> 8, value ->> 9, value ->> 10, value ->> 11, value ->> 12,
       value ->> 13, value ->> 14, :id, @now
FROM json_each(:items)
WHERE true
ON CONFLICT DO NOTHING

-- name: coverage
-- In the order of precedence: of two rows that overlap, the later one holds.
SELECT dataset, first, last, fence, first_parent_hash, last_hash, rows, digest, checks, unproven,
       endpoint
FROM coverage
WHERE sink_id = :sink_id AND network = :network AND (:dataset IS NULL OR dataset = :dataset)
ORDER BY dataset, fence, run_fence, nth

-- name: profiles
SELECT name, profile FROM endpoints WHERE network = :network ORDER BY name

-- name: keep_profiles
-- Items: [name, profile]
INSERT INTO endpoints (network, name, profile, updated_at)
SELECT :network, value ->> 0, value ->> 1, @now
FROM json_each(:items)
WHERE true
ON CONFLICT (network, name) DO UPDATE
SET profile = excluded.profile, updated_at = excluded.updated_at
