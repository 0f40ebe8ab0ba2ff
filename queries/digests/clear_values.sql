-- Distinct values of the log.
SELECT DISTINCT api_id, text FROM canonical_value WHERE text IS NOT NULL
