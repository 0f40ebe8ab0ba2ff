-- Those of some visits that have an observation of any API.
SELECT DISTINCT observation.visit_id FROM observation
SEMI JOIN asked ON asked.visit_id = observation.visit_id
WHERE observation.visit_id BETWEEN $first AND $last
