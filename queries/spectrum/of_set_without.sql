-- The same without the users at some positions of the snapshot.
SELECT users, count(*) AS tuples
FROM (SELECT count(*) AS users FROM {snapshot} ANTI JOIN dropped ON dropped.position = {snapshot}.rowid GROUP BY {columns})
GROUP BY users
ORDER BY users
