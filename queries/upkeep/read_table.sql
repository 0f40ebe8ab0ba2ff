-- Reads every column of every row of a table.
SELECT max(hash({table})) FROM {table}
