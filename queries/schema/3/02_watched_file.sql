-- Files of watched folders that were read or refused, as they were then.
CREATE TABLE watched_file (path VARCHAR PRIMARY KEY, size BIGINT NOT NULL, modified BIGINT NOT NULL, refusal VARCHAR)
