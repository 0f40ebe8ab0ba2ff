-- Users were forgotten here and there: the last day counts. Runs of there that are not known here would be mixed with those of here: all begin anew.
INSERT OR REPLACE INTO meta
SELECT name, max(value)
FROM (
    FROM meta
    UNION ALL BY NAME
    FROM arrived_meta
    UNION ALL BY NAME
    SELECT 'runs_after' AS name, max(since)::VARCHAR AS value
    FROM (FROM checked_window UNION ALL BY NAME SELECT * EXCLUDE (place) FROM arrived_checked_window)
    WHERE EXISTS (FROM arrived_checked_window ANTI JOIN checked_window USING (series, label) WHERE run IS NOT NULL)
)
WHERE name IN ('forgotten_on', 'runs_after') AND value IS NOT NULL
GROUP BY name
