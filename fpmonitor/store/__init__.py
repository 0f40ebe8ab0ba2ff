"""The DuckDB database: schema, migrations, ingest transaction, snapshots."""
