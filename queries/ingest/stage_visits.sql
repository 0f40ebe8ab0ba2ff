-- The visits of the staged records: a user, a time and a source.
CREATE OR REPLACE TEMP TABLE staged_visit AS
SELECT digest, "time", source, min(rowid) AS first_row, count(*) AS records FROM staged WHERE problem IS NULL GROUP BY ALL
