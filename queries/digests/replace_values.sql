-- Values of the log by their digests.
CREATE OR REPLACE TEMP TABLE canonical_value AS
SELECT canonical_value.api_id, canonical_value.status, canonical_value.raw, value_digest.digest AS text
FROM canonical_value
LEFT JOIN value_digest USING (api_id, text)
