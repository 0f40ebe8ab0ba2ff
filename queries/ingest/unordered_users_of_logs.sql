-- The same by log.
SELECT staged_log.batch_id, count(DISTINCT digest)
FROM numbered_visit
SEMI JOIN unordered_visit USING (visit_id)
ASOF JOIN staged_log ON numbered_visit.first_row >= staged_log.first_row
GROUP BY staged_log.batch_id
