-- An empty database takes over the keys of digests.
INSERT OR REPLACE INTO meta SELECT name, value FROM arrived_meta WHERE name <> 'schema_version'
