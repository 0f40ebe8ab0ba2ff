-- The last visit and the last log that are stored; a log that follows a forgotten one gets its number, and not its time.
SELECT
    (SELECT COALESCE(max(visit_id), -1) FROM visit),
    (SELECT COALESCE(max(batch_id), 0) FROM batch),
    (SELECT COALESCE(max(ingested_at), TIMESTAMP '1970-01-01') FROM batch)
