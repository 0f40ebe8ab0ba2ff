-- How many tuples of each cohort have how many users, and how many of those users are not left out.
SELECT {cohort}, users, kept, count(*) AS tuples
FROM (
    SELECT {cohort}, count(*) AS users, count(*) - count(dropped.position) AS kept
    FROM {snapshot} LEFT JOIN dropped ON dropped.position = {snapshot}.rowid
    GROUP BY {columns}
)
GROUP BY {cohort}, users, kept
ORDER BY ALL
