-- Staged records that cannot be stored, numbered from 0. Inside a transaction row ids do not start at 0.
SELECT rowid - (SELECT min(rowid) FROM staged) AS row, problem FROM staged WHERE problem IS NOT NULL ORDER BY row LIMIT $most
