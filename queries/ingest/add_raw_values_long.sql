INSERT INTO raw_value
SELECT 0, api.api_id, staged.status, staged.value, $json::BOOLEAN, count(*)
FROM staged JOIN api ON api.name = staged.api
WHERE staged.problem IS NULL AND staged.status <> 'absent'
GROUP BY ALL
