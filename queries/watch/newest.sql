-- The last visit and the last log that are stored; a log that follows a forgotten one gets its number, and not its time.
SELECT
    (SELECT max(visit_id) FROM visit),
    (SELECT max(batch_id) FROM batch),
    (SELECT max(ingested_at) FROM batch)
