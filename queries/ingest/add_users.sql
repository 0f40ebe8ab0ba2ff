-- Number the users that were not seen before, in the order of the log.
INSERT INTO user
SELECT (SELECT COALESCE(max(user_id), 0) FROM user) + row_number() OVER (), digest
FROM (SELECT digest FROM staged_user ANTI JOIN user USING (digest) ORDER BY first_row)
