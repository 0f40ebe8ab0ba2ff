INSERT INTO observation SELECT visit_id, api_id, value_id FROM kept ORDER BY api_id, row
