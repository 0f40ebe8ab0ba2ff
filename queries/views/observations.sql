-- One row per observation: who returned what, when, and by which library it was asked.
CREATE OR REPLACE TEMP VIEW observations AS
SELECT
    visit.user_id AS "user",
    visit_id AS visit,
    visit."time",
    source.name AS source,
    api.name AS api,
    value.status,
    value.text AS value
FROM observation
JOIN visit USING (visit_id)
JOIN api USING (api_id)
JOIN value USING (api_id, value_id)
LEFT JOIN source USING (source_id)
