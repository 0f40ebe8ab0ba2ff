-- Values of the taken observations that are not here; others may have been forgotten here.
INSERT INTO value
SELECT
    arrived.api_id,
    COALESCE(known.last, 0) + row_number() OVER (PARTITION BY arrived.api_id ORDER BY arrived.arrived_value),
    arrived.status,
    arrived.text
FROM (
    SELECT api.api_id, value.value_id AS arrived_value, value.status, value.text
    FROM (SELECT DISTINCT arrived_api AS api_id, arrived_value AS value_id FROM taken_observation)
    JOIN arrived_value AS value USING (api_id, value_id)
    JOIN arrived_api USING (api_id)
    JOIN api ON api.name = arrived_api.name
) AS arrived
LEFT JOIN (SELECT api_id, max(value_id) AS last FROM value GROUP BY api_id) AS known USING (api_id)
WHERE NOT EXISTS (
    SELECT 1 FROM value
    WHERE value.api_id = arrived.api_id AND value.status = arrived.status AND value.text IS NOT DISTINCT FROM arrived.text
)
ORDER BY arrived.api_id, arrived.arrived_value
