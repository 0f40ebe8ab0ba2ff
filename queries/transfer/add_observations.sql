-- Taken observations that are not here, in the order of the export: of equal times the last one counts.
INSERT INTO observation
SELECT visit_id, api_id, value_id
FROM (
    SELECT taken_observation.place, taken_observation.visit_id, taken_observation.fresh, value_number.api_id, value_number.value_id
    FROM taken_observation
    JOIN value_number USING (arrived_api, arrived_value)
) AS arrived
WHERE fresh OR NOT EXISTS (
    SELECT 1 FROM observation
    WHERE observation.visit_id = arrived.visit_id
        AND observation.api_id = arrived.api_id
        AND observation.value_id = arrived.value_id
)
ORDER BY place
