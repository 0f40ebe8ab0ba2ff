-- To fill its parts of tables, a checkpoint would write half of a new log's rows again.
SET max_vacuum_tasks = 0
