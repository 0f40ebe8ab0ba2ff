-- The same of many sets in one pass.
SELECT place, lacking, size, count(*)::BIGINT AS number
FROM (SELECT ({place})::BIGINT AS place, ({lacking})::BIGINT AS lacking, count(*)::BIGINT AS size FROM person GROUP BY GROUPING SETS ({sets})) AS tuple
GROUP BY place, lacking, size
