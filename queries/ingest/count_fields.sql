-- Of each log the records that can be used and their users; records with a time, different times; the same of sources.
SELECT
    log,
    sum(records)::BIGINT,
    {users},
    COALESCE(sum(records) FILTER ("time" IS NOT NULL), 0)::BIGINT,
    count(DISTINCT "time"),
    COALESCE(sum(records) FILTER (source IS NOT NULL), 0)::BIGINT,
    count(DISTINCT source)
FROM ({values})
GROUP BY log
