-- Repeat visits with an API by the browser family of their users: how many, and how many of them brought a new value.
SELECT {number} AS number, family, sum(visits - 1) AS tried, sum(found - 1) AS changed
FROM (
    SELECT "user", count(*) AS visits, count(DISTINCT {column}) AS found FROM {visits} WHERE {column} IS NOT NULL GROUP BY "user" HAVING count(*) > 1
) AS repeated
JOIN {browsers} AS browser ON browser."user" = repeated."user"
GROUP BY family
