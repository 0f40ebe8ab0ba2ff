-- Number the values that their API did not return before.
INSERT INTO value
SELECT
    arrived.api_id,
    COALESCE(known.last, 0) + row_number() OVER (PARTITION BY arrived.api_id ORDER BY arrived.status DESC, arrived.text),
    arrived.status,
    arrived.text
FROM (SELECT DISTINCT api_id, status, text FROM canonical_value) AS arrived
LEFT JOIN (SELECT api_id, max(value_id) AS last FROM value GROUP BY api_id) AS known USING (api_id)
WHERE NOT EXISTS (
    SELECT 1 FROM value
    WHERE value.api_id = arrived.api_id AND value.status = arrived.status AND value.text IS NOT DISTINCT FROM arrived.text
)
ORDER BY arrived.api_id, arrived.status DESC, arrived.text
