-- Users were forgotten here and there: the last day counts. The runs of here and there were of users who may be the same: they begin anew.
INSERT OR REPLACE INTO meta
SELECT name, max(value)
FROM (
    FROM meta
    UNION ALL BY NAME
    FROM arrived_meta
    UNION ALL BY NAME
    SELECT 'runs_after' AS name, max(since)::VARCHAR AS value FROM (FROM checked_window UNION ALL BY NAME SELECT * EXCLUDE (place) FROM arrived_checked_window)
)
WHERE name IN ('forgotten_on', 'runs_after') AND value IS NOT NULL
GROUP BY name
