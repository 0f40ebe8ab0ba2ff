-- With the first users, before anybody has looked at one; names that are forgotten later still count.
INSERT INTO meta
SELECT unnest(['first_apis', 'first_names']), unnest([count(*)::VARCHAR, to_json(list(name))::VARCHAR])
FROM api
WHERE NOT EXISTS (FROM meta WHERE name = 'first_apis') AND EXISTS (FROM batch WHERE stored > 0)
HAVING count(*) > 0
