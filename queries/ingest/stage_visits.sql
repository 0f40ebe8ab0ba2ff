-- The visits of the staged records: a user, a source, and a time; or the name of the visit, whenever it was told of.
CREATE OR REPLACE TEMP TABLE staged_visit AS
SELECT
    digest, moment, view, source,
    min("time") AS "time", min(session) AS session, min(row) AS first_row, count(*) AS records
FROM (SELECT *, rowid AS row, CASE WHEN view IS NULL THEN "time" END AS moment FROM staged WHERE problem IS NULL)
GROUP BY digest, moment, view, source
