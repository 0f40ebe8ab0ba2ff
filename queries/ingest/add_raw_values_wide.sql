-- Distinct values of some columns of a wide log. JSON text has no word `undefined` and none that begins with `error:`, so that
-- collectors can say them beside values.
INSERT INTO raw_value
SELECT
    log,
    api_id,
    CASE WHEN $json AND raw = 'undefined' THEN 'undefined' WHEN $json AND starts_with(raw, 'error:') THEN 'error' ELSE 'value' END,
    raw,
    $json::BOOLEAN,
    records
FROM (SELECT log, api_id, raw, count(*) AS records FROM ({cells}) WHERE raw IS NOT NULL GROUP BY ALL)
