-- Staged records that cannot be stored, numbered from 0.
SELECT rowid AS row, problem FROM staged WHERE problem <> '' ORDER BY rowid LIMIT $most
