"""SQL statements, one a file, named for what it answers; installed as fpmonitor.queries."""
