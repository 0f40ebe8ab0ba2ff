-- Let the next checkpoint take the space of deleted rows.
RESET max_vacuum_tasks
