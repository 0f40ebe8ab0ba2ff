-- Users of a window of whom a later log than those known has corrected a visit that was stored: it is the later log's now.
SELECT count(DISTINCT user_id)
FROM visit
JOIN batch USING (batch_id)
WHERE "time" >= $since AND "time" < $until AND visit_id <= $visit AND (batch_id > $batch OR ingested_at > $moment)
