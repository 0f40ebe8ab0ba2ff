-- Number the users that were not seen before.
INSERT INTO user
SELECT (SELECT COALESCE(max(user_id), 0) FROM user) + row_number() OVER (), digest
FROM (SELECT DISTINCT digest FROM staged WHERE problem IS NULL) AS arrived
ANTI JOIN user USING (digest)
