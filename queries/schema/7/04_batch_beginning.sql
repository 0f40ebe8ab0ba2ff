-- The digest of the log's first lines: whether its beginning is stored under another name.
ALTER TABLE batch ADD COLUMN beginning VARCHAR
