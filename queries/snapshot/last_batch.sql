SELECT COALESCE(max(batch_id), 0) FROM batch
