-- Users of visits that have a time after some moment: in all, of the logs whose names differ in numbers alone, and of
-- each log.
WITH visit_ahead AS (
    SELECT user_id, batch.source AS log, regexp_replace(batch.source, '[0-9]+', '*', 'g') AS host
    FROM visit LEFT JOIN batch USING (batch_id) WHERE "time" > $moment
)
SELECT host, log, count(DISTINCT user_id) FROM visit_ahead
GROUP BY GROUPING SETS ((), (host), (host, log))
ORDER BY grouping(host) DESC, grouping(host, log) DESC, 3 DESC, 1, 2
