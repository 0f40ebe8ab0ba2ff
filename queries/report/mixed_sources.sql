-- APIs whose values come from several sources of at least k users: comparable only if all of them say what the browser returned.
SELECT api.name, list(DISTINCT source.name ORDER BY source.name)
FROM (SELECT DISTINCT observation.api_id, visit.source_id FROM observation JOIN visit USING (visit_id)) AS seen
JOIN api USING (api_id)
JOIN source USING (source_id)
SEMI JOIN (SELECT source_id FROM visit GROUP BY source_id HAVING count(DISTINCT user_id) >= $k) AS common USING (source_id)
GROUP BY api.name
HAVING count(DISTINCT source.name) > 1
ORDER BY api.name
