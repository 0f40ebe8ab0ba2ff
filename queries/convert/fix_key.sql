-- Users of all converted logs have digests of one key, so that they can be told to be the same.
UPDATE meta SET value = '' WHERE name = 'user_key'
