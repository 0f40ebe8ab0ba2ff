INSERT INTO visit
SELECT visit_id, user_id, "time", source_id, staged_log.batch_id
FROM numbered_visit
ASOF JOIN staged_log ON numbered_visit.first_row >= staged_log.first_row
WHERE NOT known
ORDER BY visit_id
