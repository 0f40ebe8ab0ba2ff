-- A table that an older export does not have.
CREATE OR REPLACE TEMP VIEW {arrived} AS SELECT *, 0 AS place FROM {table} LIMIT 0
