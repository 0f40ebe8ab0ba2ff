-- Values of the log by their digests; materialised, since DuckDB 1.5 hands filters on to Arrow.
CREATE OR REPLACE TEMP TABLE canonical_value AS
WITH known AS MATERIALIZED (SELECT api_id, text, digest FROM value_digest)
SELECT canonical_value.* REPLACE (known.digest AS text)
FROM canonical_value
LEFT JOIN known USING (api_id, text)
