-- How many tuples of a set have how many users, and whether they lack a value of it.
SELECT ({place})::BIGINT AS place, lacking, size, count(*)::BIGINT AS number
FROM (SELECT ({lacking})::BIGINT AS lacking, count(*)::BIGINT AS size FROM person GROUP BY {columns}) AS tuple
GROUP BY lacking, size
