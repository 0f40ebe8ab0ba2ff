SELECT name, api_id FROM api WHERE name IN (SELECT unnest($names::VARCHAR[]))
