-- Names that the first log brought and that are still known, and how many it brought; empty where nobody noted them.
SELECT
    (SELECT list(name) FROM api WHERE name IN (SELECT unnest(from_json(value, '["VARCHAR"]')) FROM meta WHERE name = 'first_names')),
    (SELECT value::INTEGER FROM meta WHERE name = 'first_apis' AND value <> '')
