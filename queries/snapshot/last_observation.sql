-- The row that was stored last; rows stay where they are until users are forgotten or the file is rewritten.
SELECT COALESCE(max(rowid), -1) FROM observation
