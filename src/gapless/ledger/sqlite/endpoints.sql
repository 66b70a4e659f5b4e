-- What is known of endpoints.

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
