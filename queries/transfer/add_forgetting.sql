-- Users were forgotten here and there: the last day counts.
INSERT OR REPLACE INTO meta
SELECT name, max(value)
FROM (FROM meta UNION ALL BY NAME FROM arrived_meta)
WHERE name = 'forgotten_on'
GROUP BY name
