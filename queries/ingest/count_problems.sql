-- How many records are staged, and how many of them cannot be stored.
SELECT count(*) AS staged, count(*) FILTER (problem <> '') AS problems
FROM staged
