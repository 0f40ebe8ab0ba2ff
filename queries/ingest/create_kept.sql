-- Of equal observations of one visit the last in the log stays.
CREATE OR REPLACE TEMP TABLE kept AS
SELECT max(row) AS row, visit_id, api_id, value_id, any_value(known) AS known FROM contested GROUP BY visit_id, api_id, value_id
