-- The values of a wide log, by the place of their record: staged with it, or still in the log.
CREATE OR REPLACE TEMP VIEW log_value AS {values}
