-- All visits that came by the write key of this name; a library's have its version before it.
CREATE OR REPLACE TEMP TABLE forgotten AS
SELECT visit_id FROM visit
JOIN source USING (source_id)
WHERE source.name = $key OR ends_with(source.name, ' via ' || $key)
