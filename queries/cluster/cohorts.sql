-- How many tuples of each cohort have how many users.
SELECT {cohort}, users, count(*) AS tuples
FROM (SELECT {cohort}, count(*) AS users FROM ({users}) AS shown GROUP BY {columns}) AS counted
GROUP BY {cohort}, users
