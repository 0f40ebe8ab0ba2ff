-- The logs that were stored, in the order of ingest.
SELECT source, collector, read, stored, duplicates, rejected, users, apis, seconds, unit, COALESCE(unordered, 0), account FROM batch ORDER BY batch_id
