DELETE FROM reject WHERE batch_id IN (SELECT batch_id FROM batch WHERE source = $source)
