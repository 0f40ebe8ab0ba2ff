-- The digest of the log's bytes unpacked: whether it is stored under another name or was read otherwise.
ALTER TABLE batch ADD COLUMN content VARCHAR
