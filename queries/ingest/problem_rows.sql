-- Staged records that cannot be stored, numbered from 0.
SELECT rowid AS row, problem FROM staged WHERE problem IS NOT NULL ORDER BY rowid LIMIT $most
