INSERT INTO demand_batch VALUES ($batch, $digest, $source, $collector, $stored_at, $read, $stored, $rejected)
