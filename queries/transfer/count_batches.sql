-- Batches that are new here, and those that were stored before.
SELECT count(*) FILTER (fresh), count(*) FILTER (NOT fresh) FROM batch_number
