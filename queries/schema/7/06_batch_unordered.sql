-- How many users have rows without a time that differ.
ALTER TABLE batch ADD COLUMN unordered BIGINT
