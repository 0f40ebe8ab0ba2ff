INSERT INTO raw_value
SELECT 0, api.api_id, staged.status, staged.value, $json::BOOLEAN, NULL, count(*)
FROM staged JOIN api ON api.name = staged.api
WHERE staged.problem IS NULL
GROUP BY ALL
