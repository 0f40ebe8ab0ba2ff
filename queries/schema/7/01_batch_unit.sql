-- Who a row of the log is: a user, a visitor or a row; null where an earlier version did not say. Then what tells whether a log, or its
-- beginning, is stored under another name or was read otherwise: the digest and number of its bytes unpacked, the digest of its first
-- lines, and the name that rows bear; and how many users have rows without a time that differ.
ALTER TABLE batch ADD COLUMN unit VARCHAR;
ALTER TABLE batch ADD COLUMN content VARCHAR;
ALTER TABLE batch ADD COLUMN bytes BIGINT;
ALTER TABLE batch ADD COLUMN beginning VARCHAR;
ALTER TABLE batch ADD COLUMN origin VARCHAR;
ALTER TABLE batch ADD COLUMN unordered BIGINT;
