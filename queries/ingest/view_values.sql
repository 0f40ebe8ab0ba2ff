-- The values of the records of a wide log that can be stored, which are read from it a column at a time, by the place of their record.
CREATE OR REPLACE TEMP VIEW log_value AS SELECT *, 0 AS log FROM ({values}) ANTI JOIN unusable USING (log_row)
