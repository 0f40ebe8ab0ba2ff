UPDATE meta
SET value = COALESCE((SELECT to_json(list(api.name))::VARCHAR FROM api WHERE api.name IN (SELECT unnest(from_json(meta.value, '["VARCHAR"]')))), '[]')
WHERE name = 'first_names'
