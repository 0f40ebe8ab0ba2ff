-- The batch that already holds these bytes, if any.
SELECT batch_id, source, collector, read, users, apis FROM batch WHERE digest = $digest
