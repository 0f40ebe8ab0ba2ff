-- All observations of one API, in the order in which they were stored.
SELECT visit_id, value_id FROM observation WHERE api_id = $api
