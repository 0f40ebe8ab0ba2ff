-- The last visit and the last log that are stored; a log that follows a forgotten one gets its number, and not its time.
SELECT
    COALESCE((SELECT visit_id FROM visit ORDER BY visit_id DESC LIMIT 1), -1),
    (SELECT COALESCE(max(batch_id), 0) FROM batch),
    (SELECT COALESCE(max(ingested_at), TIMESTAMP '1970-01-01') FROM batch)
