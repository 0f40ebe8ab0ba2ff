-- Users with an observation of an API.
SELECT count(DISTINCT user_id) FROM visit SEMI JOIN (SELECT visit_id FROM observation WHERE api_id = $api) AS seen USING (visit_id)
