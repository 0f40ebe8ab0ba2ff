-- Names that the first log brought, and how many; empty where nobody noted them.
SELECT
    (SELECT from_json(value, '["VARCHAR"]') FROM meta WHERE name = 'first_names'),
    (SELECT value::INTEGER FROM meta WHERE name = 'first_apis' AND value <> '')
