SELECT name FROM source ORDER BY name
