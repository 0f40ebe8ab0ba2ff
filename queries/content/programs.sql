-- What a file could run when it is read: views in place of tables, and macros, which take the place of
-- functions. Names are qualified, and nothing is called, since the file may have macros of any name.
SELECT 'view' AS kind, view_name AS name FROM system.main.duckdb_views() WHERE database_name NOT IN ('system', 'temp')
UNION ALL
SELECT 'macro', function_name FROM system.main.duckdb_functions() WHERE database_name NOT IN ('system', 'temp')
