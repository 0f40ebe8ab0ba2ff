-- Users who came back with an API by their browser: how many, of how many a value changed, and of how many one came back.
SELECT {number} AS number, family, version, count(*) AS users, sum(CASE WHEN found > 1 THEN 1 ELSE 0 END) AS changed,
    sum(CASE WHEN found < visits THEN 1 ELSE 0 END) AS kept
FROM (
    SELECT "user", count(*) AS visits, count(DISTINCT {column}) AS found FROM {visits} WHERE {column} IS NOT NULL GROUP BY "user" HAVING count(*) > 1
) AS repeated
JOIN {browsers} AS browser ON browser."user" = repeated."user"
GROUP BY family, version
