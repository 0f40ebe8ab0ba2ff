-- Let the next checkpoint take the space of deleted rows, and join small parts of tables.
RESET max_vacuum_tasks
