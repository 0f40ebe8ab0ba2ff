INSERT INTO raw_value
SELECT DISTINCT api.api_id, staged.status, staged.value, $json::BOOLEAN FROM staged JOIN api ON api.name = staged.api WHERE staged.problem IS NULL AND staged.status <> 'absent'
