-- Who a row of the log is: a user, a visitor or a row; null where an earlier version did not say.
ALTER TABLE batch ADD COLUMN unit VARCHAR
