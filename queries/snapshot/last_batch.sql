SELECT max(batch_id) FROM batch
