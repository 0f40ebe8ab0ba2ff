-- How many tuples of each cohort have how many users, and how many of these the thinning keeps.
SELECT {cohort}, users, kept, count(*) AS tuples
FROM (SELECT {cohort}, count(*) AS users, sum(CASE WHEN {condition} THEN 1 ELSE 0 END) AS kept FROM ({keys}) AS keyed GROUP BY {columns}) AS counted
GROUP BY {cohort}, users, kept
