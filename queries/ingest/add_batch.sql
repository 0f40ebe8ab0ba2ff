INSERT INTO batch VALUES ($batch, $digest, $source, $collector, $ingested_at, $read, $stored, $duplicates, $rejected, $users, $apis, $seconds)
