INSERT OR REPLACE INTO watched_file
SELECT unnest($paths::VARCHAR[]), unnest($sizes::BIGINT[]), unnest($modified::BIGINT[]), $refusal
