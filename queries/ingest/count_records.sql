-- What became of the staged records, counted in records of the log.
SELECT
    (SELECT count(*) FROM staged) AS staged,
    (SELECT count(*) FROM staged WHERE problem <> '') AS problems,
    (SELECT count(*) FROM staged WHERE problem IS NULL) - (SELECT count(*) FROM repeat) + (SELECT count(DISTINCT row) FROM kept) AS stored,
    (SELECT count(*) FROM staged_user) AS users
