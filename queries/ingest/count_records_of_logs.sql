-- What became of the records of each of the logs that are staged together.
SELECT
    batch_id,
    count(*) AS read,
    count(*) FILTER (problem IS NULL) - count(repeat.row) + count(stays.row) AS stored,
    count(DISTINCT digest) FILTER (problem IS NULL) AS users
FROM (SELECT rowid AS row, problem, digest FROM staged) AS record
ASOF JOIN staged_log ON record.row >= staged_log.first_row
LEFT JOIN repeat ON repeat.row = record.row
LEFT JOIN (SELECT DISTINCT row FROM kept) AS stays ON stays.row = record.row
GROUP BY batch_id
ORDER BY batch_id
