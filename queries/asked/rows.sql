-- The columns of a table that is asked, by short names; an empty name of a user is none.
SELECT {columns} FROM {table} AS v
