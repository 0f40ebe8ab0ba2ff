-- Keys of digests, and other settings of a database.
SELECT name, value FROM {table} WHERE name <> 'schema_version'
