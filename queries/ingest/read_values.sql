-- Raw values as text: JSON strings without their quotes, whole numbers without a fraction of zero, errors by their message.
CREATE OR REPLACE TEMP TABLE arrived_value AS
SELECT
    log,
    api_id,
    status,
    raw,
    records,
    CASE
        WHEN status = 'undefined' OR (status = 'error' AND is_json AND cell = 'null') THEN NULL
        WHEN is_json AND cell[1] = '"' THEN cell::JSON ->> '$'
        WHEN is_json AND regexp_full_match(cell, '-?[0-9]+\.0') THEN replace(cell[:-3], '-0', '0')
        ELSE cell
    END AS text
FROM (SELECT *, CASE WHEN is_json AND status = 'error' AND starts_with(raw, 'error:') THEN raw[7:] ELSE raw END AS cell FROM raw_value)
