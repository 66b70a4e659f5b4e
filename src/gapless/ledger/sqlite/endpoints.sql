-- What was learned about endpoints.

-- name: profiles
SELECT @StoredProfile FROM endpoints WHERE network = :network ORDER BY name

-- name: keep_profiles
INSERT INTO endpoints (network, name, profile, updated_at)
SELECT :network, name, profile, @now
FROM (@StoredProfile(items)) AS item
WHERE true
ON CONFLICT (network, name) DO UPDATE
SET profile = excluded.profile, updated_at = excluded.updated_at
