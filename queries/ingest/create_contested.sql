-- Observations that may repeat one of the same visit.
CREATE OR REPLACE TEMP TABLE contested (row BIGINT, visit_id INTEGER, known BOOLEAN, api_id INTEGER, value_id INTEGER)
