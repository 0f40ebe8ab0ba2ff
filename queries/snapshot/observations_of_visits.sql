-- Observations of some visits, API by API in the order in which they were stored.
SELECT api_id, visit_id, value_id FROM observation
SEMI JOIN asked USING (visit_id)
ORDER BY api_id, observation.rowid
