-- Keys of digests, and other settings of a database that another one must share.
SELECT name, value FROM {table} WHERE name NOT IN ('schema_version', 'forgotten_on', 'runs_after', 'first_look', 'first_apis', 'first_names')
