-- The number of the log's bytes unpacked.
ALTER TABLE batch ADD COLUMN bytes BIGINT
