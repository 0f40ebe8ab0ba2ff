SELECT COALESCE(max(batch_id), 0) + 1 FROM demand_batch
