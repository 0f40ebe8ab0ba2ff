-- Some visits with an observation of an API.
SELECT visit_id FROM observation WHERE api_id = $api LIMIT $most
