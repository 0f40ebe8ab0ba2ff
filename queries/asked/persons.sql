-- One row a user of a table that has no more.
SELECT {columns} FROM visit WHERE {condition}
