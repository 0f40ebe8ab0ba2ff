-- The batch that already holds these bytes, if any.
SELECT collector, read, users, apis, unit, account FROM batch WHERE digest IN (SELECT unnest($digests::VARCHAR[])) LIMIT 1
