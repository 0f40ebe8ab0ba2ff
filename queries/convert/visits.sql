-- The visits in the order of their number, which is that of the logs. Who is a visitor by a rule, or a row, is called so.
SELECT visit_id, visit."time", CASE batch.unit WHEN 'user' THEN '' ELSE batch.unit || ':' END || printf('%016x', user.digest) AS "user", source.name AS source, parse_filename(batch.source) AS batch
FROM visit
JOIN user USING (user_id)
JOIN batch USING (batch_id)
LEFT JOIN source USING (source_id)
ORDER BY visit_id
