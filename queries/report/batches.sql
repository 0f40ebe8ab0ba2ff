-- The logs that were stored, in the order of ingest.
SELECT source, collector, read, stored, duplicates, rejected, users, apis, seconds FROM batch ORDER BY batch_id
