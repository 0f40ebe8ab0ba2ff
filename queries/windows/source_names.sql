-- Sources, by their numbers.
SELECT source_id, name FROM source ORDER BY name
