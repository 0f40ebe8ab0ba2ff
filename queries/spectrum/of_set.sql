-- Count spectrum of a set of columns: how many distinct tuples have how many users.
SELECT users, count(*) AS tuples
FROM (SELECT count(*) AS users FROM {snapshot} GROUP BY {columns})
GROUP BY users
ORDER BY users
