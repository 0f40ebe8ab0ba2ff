SELECT batch_id, source, collector, ingested_at, read, stored, duplicates, rejected, users, apis, seconds FROM batch ORDER BY batch_id
