-- Observations of an API beyond the first with their visit and value; one API at a time, which needs little memory.
SELECT count(*) - count(DISTINCT (visit_id, value_id)) FROM observation WHERE api_id = $api
