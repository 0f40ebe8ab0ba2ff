-- The batch that already holds these bytes, if any.
SELECT collector, read, users, apis FROM batch WHERE digest = $digest
