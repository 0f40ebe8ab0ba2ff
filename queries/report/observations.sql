-- All observations, a row each: user, API, status, source, text.
SELECT visit.user_id, api.name, value.status, source.name, value.text
FROM observation
JOIN visit USING (visit_id)
JOIN api USING (api_id)
JOIN value USING (api_id, value_id)
LEFT JOIN source USING (source_id)
ORDER BY visit_id, api.name
