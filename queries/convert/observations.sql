SELECT visit_id, value_id FROM observation WHERE api_id = $api
