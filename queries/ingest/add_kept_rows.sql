-- Of equal observations of one visit the last in the log stays.
INSERT INTO kept SELECT max(row) FROM contested GROUP BY visit_id, api_id, value_id
