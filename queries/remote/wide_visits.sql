-- Visits of a wide batch as they are stored: users by keyed digest.
SELECT substr(sha256($key || checked."user"), 1, 16) AS "user", moment, source, $batch AS batch, {cells}
FROM checked {joins}
WHERE problem IS NULL
