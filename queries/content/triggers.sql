-- What a file would run when it is written; DuckDB before 2.0 knows no triggers.
SELECT 'trigger' AS kind, trigger_name AS name FROM system.main.duckdb_triggers()
