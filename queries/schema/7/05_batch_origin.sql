-- The name that the rows of the log bear.
ALTER TABLE batch ADD COLUMN origin VARCHAR
