-- What stands in a table with a row a user: rows, those with a user, different users, and some numbers of each column.
SELECT count(*) AS records, count(CASE WHEN "user" <> '' THEN 1 END) AS named, count(DISTINCT "user") AS users, {columns} FROM {rows}
