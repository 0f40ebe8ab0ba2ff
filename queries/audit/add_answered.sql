INSERT INTO answered_query SELECT $reader::VARCHAR, unnest($queries::VARCHAR[]), $answered_at::TIMESTAMP
