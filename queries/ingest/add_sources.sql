-- Number the sources that were not seen before.
INSERT INTO source
SELECT (SELECT COALESCE(max(source_id), 0) FROM source) + row_number() OVER (ORDER BY name), name
FROM (SELECT DISTINCT source AS name FROM staged_visit WHERE source IS NOT NULL) AS arrived
ANTI JOIN source USING (name)
