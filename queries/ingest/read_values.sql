-- Raw values as text: JSON strings without their quotes, whole numbers without a fraction of zero.
CREATE OR REPLACE TEMP TABLE arrived_value AS
SELECT
    api_id,
    status,
    raw,
    CASE
        WHEN status = 'undefined' OR (status = 'error' AND $json AND raw = 'null') THEN NULL
        WHEN $json AND raw[1] = '"' THEN raw::JSON ->> '$'
        WHEN $json AND regexp_full_match(raw, '-?[0-9]+\.0') THEN replace(raw[:-3], '-0', '0')
        ELSE raw
    END AS text
FROM raw_value
