INSERT INTO visit
SELECT visit_number.visit_id, user.user_id, taken_visit."time", source.source_id, taken_visit.batch_id
FROM taken_visit
JOIN visit_number USING (arrived_id)
JOIN user USING (digest)
LEFT JOIN source ON source.name = taken_visit.source
WHERE visit_number.fresh
ORDER BY visit_number.visit_id
