INSERT INTO observation
SELECT visit_id, api_id, value_id FROM contested GROUP BY visit_id, api_id, value_id ORDER BY api_id, max(row)
