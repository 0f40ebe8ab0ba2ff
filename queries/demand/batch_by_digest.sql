-- The stored log with these bytes, if any.
SELECT batch_id FROM demand_batch WHERE digest = $digest
