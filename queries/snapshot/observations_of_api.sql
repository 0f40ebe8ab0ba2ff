-- Observations of one API between two visits, in the order in which they were stored.
SELECT visit_id, value_id FROM observation WHERE api_id = $api AND visit_id BETWEEN $first AND $last
