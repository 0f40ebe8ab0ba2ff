INSERT INTO demand_reject SELECT $batch::INTEGER, unnest($lines::BIGINT[]), unnest($reasons::VARCHAR[]), unnest($excerpts::VARCHAR[])
