SELECT value_id, status, text FROM value WHERE api_id = $api ORDER BY value_id
