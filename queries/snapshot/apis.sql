SELECT api_id, name FROM api ORDER BY name
