INSERT INTO held (ask, digest, frame)
SELECT $ask, $digest, $frame
WHERE NOT EXISTS (SELECT 1 FROM taken WHERE ask = $ask AND digest = $digest)
ON CONFLICT DO NOTHING
