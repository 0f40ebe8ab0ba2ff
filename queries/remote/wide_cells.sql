-- Observations of a wide batch: a row for each value that is there.
SELECT "user", moment, source, api, status, value
FROM (
    SELECT checked."user", checked.moment, checked.source, batch_api.api, 'value' AS status,
        {value} AS value
    FROM checked CROSS JOIN batch_api
    WHERE checked.problem IS NULL
) AS crossed
WHERE value IS NOT NULL
