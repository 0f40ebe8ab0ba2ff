CREATE TABLE {snapshot} AS SELECT * FROM codes
