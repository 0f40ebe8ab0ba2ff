-- Sources of the taken visits that are not here.
INSERT INTO source
SELECT (SELECT COALESCE(max(source_id), 0) FROM source) + row_number() OVER (ORDER BY name), name
FROM (SELECT DISTINCT source AS name FROM taken_visit WHERE visit_id IS NULL AND source IS NOT NULL)
ANTI JOIN source USING (name)
