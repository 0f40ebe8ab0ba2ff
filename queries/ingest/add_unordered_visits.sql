-- Visits without a time of which rows of this log, or this one and an earlier one, tell different values of an API.
INSERT INTO unordered_visit
SELECT visit_id
FROM (SELECT visit_id, api_id, value_id, known FROM contested SEMI JOIN (SELECT visit_id FROM repeat WHERE undated) AS undated USING (visit_id)) AS told
LEFT JOIN observation USING (visit_id, api_id)
GROUP BY visit_id, api_id
HAVING count(DISTINCT told.value_id) > 1 OR bool_and(told.value_id <> observation.value_id)
