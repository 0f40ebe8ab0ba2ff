-- Observations of a database whose data were exported, a row each, users by their digest there.
SELECT exported_user.digest::VARCHAR AS "user", exported_visit."time" AS "time", exported_source.name AS source, exported_api.name AS api,
    exported_value.status AS status, exported_value.text AS value
FROM exported_observation
JOIN exported_visit ON exported_visit.visit_id = exported_observation.visit_id
JOIN exported_user ON exported_user.user_id = exported_visit.user_id
JOIN exported_api ON exported_api.api_id = exported_observation.api_id
JOIN exported_value ON exported_value.api_id = exported_observation.api_id AND exported_value.value_id = exported_observation.value_id
LEFT JOIN exported_source ON exported_source.source_id = exported_visit.source_id
