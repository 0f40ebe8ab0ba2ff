-- Those of the records staged last that cannot be stored, numbered from 0.
SELECT rowid - first AS row, problem
FROM staged, (SELECT count(*) - $records AS first FROM staged)
WHERE rowid >= first AND problem IS NOT NULL
ORDER BY rowid
