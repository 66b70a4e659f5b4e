-- What is known of endpoints.

-- name: profiles
SELECT name, profile FROM gapless.endpoints WHERE network = :network ORDER BY name

-- name: keep_profiles
-- Items: [name, profile]
INSERT INTO gapless.endpoints (network, name, profile, updated_at)
SELECT :network, item ->> 0, item ->> 1, @now
FROM json_array_elements(:items::json) AS item
ON CONFLICT (network, name) DO UPDATE
SET profile = excluded.profile, updated_at = excluded.updated_at
