-- Readers, how many different counts each has had answered, and when the last.
SELECT reader, count(*) AS answered, max(answered_at) AS last FROM answered_query GROUP BY reader ORDER BY reader
