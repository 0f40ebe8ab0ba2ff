-- Users of the taken visits that are not here.
INSERT INTO user
SELECT (SELECT COALESCE(max(user_id), 0) FROM user) + row_number() OVER (ORDER BY first), digest
FROM (SELECT digest, min(arrived_id) AS first FROM taken_visit WHERE visit_id IS NULL GROUP BY digest)
ANTI JOIN user USING (digest)
