INSERT INTO nonces (ask, digest) VALUES ($ask, $digest) ON CONFLICT DO NOTHING
