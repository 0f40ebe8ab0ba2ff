-- How many tuples of each cohort have how many users.
SELECT {cohort}, users, count(*) AS tuples
FROM (SELECT {cohort}, count(*) AS users FROM {snapshot} GROUP BY {columns})
GROUP BY {cohort}, users
ORDER BY ALL
