-- Observations of a long batch. A record without value and status says that the API returned `undefined`.
SELECT "user", moment, source, api, kind AS status, CASE WHEN kind = 'undefined' THEN NULL ELSE value END AS value
FROM (
    SELECT "user", moment, source, api, value,
        COALESCE(status, CASE WHEN value IS NULL THEN 'undefined' ELSE 'value' END) AS kind
    FROM checked
    WHERE problem IS NULL
) AS sound
