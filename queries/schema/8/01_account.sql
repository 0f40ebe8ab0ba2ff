-- What each member of the log was taken for, as JSON; null where an earlier version did not say.
ALTER TABLE batch ADD COLUMN account VARCHAR
