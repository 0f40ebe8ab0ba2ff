-- Users of visits that have a time after some moment, in all and of each log.
SELECT batch.source, count(DISTINCT user_id) FROM visit LEFT JOIN batch USING (batch_id) WHERE "time" > $moment
GROUP BY GROUPING SETS ((), (batch.source)) ORDER BY grouping(batch.source) DESC, 2 DESC, 1
