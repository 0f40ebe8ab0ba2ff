-- From now on values are kept as digests.
INSERT INTO meta VALUES ('value_key', $key)
