-- The values of a wide log that are read from it a column at a time, by the place of their record.
CREATE OR REPLACE TEMP VIEW log_value AS {values}
