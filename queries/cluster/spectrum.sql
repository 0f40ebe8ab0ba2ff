-- How many distinct tuples of a set of columns have how many users.
SELECT {place} AS place, users, count(*) AS tuples
FROM (SELECT count(*) AS users FROM {rows} AS u GROUP BY {columns}) AS counted
GROUP BY users
