-- Logs of which visits were corrected, how many, and of how many users.
SELECT batch.source, count(DISTINCT visit_id), count(DISTINCT user_id)
FROM corrected_visit
JOIN visit USING (visit_id)
JOIN batch USING (batch_id)
GROUP BY batch.source
ORDER BY 2 DESC, 1
