-- Raw value -> number of the value.
CREATE OR REPLACE TEMP TABLE coded_value AS
SELECT canonical_value.api_id, canonical_value.status, canonical_value.raw, value.value_id
FROM canonical_value
JOIN value
    ON value.api_id = canonical_value.api_id
    AND value.status = canonical_value.status
    AND value.text IS NOT DISTINCT FROM canonical_value.text
