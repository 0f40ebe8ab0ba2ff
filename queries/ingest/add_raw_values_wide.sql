-- Distinct values of one column of a wide log. JSON text has no word `undefined` and none that begins with `error:`, so that
-- collectors can say them beside values.
INSERT INTO raw_value
SELECT
    log,
    $api::INTEGER,
    CASE WHEN $json AND raw = 'undefined' THEN 'undefined' WHEN $json AND starts_with(raw, 'error:') THEN 'error' ELSE 'value' END,
    raw,
    $json::BOOLEAN,
    records
FROM (SELECT log, {column} AS raw, count(*) AS records FROM ({values}) AS log_value WHERE {column} IS NOT NULL GROUP BY ALL)
