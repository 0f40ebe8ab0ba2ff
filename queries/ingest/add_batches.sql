INSERT INTO batch
SELECT
    unnest($batches::INTEGER[]),
    unnest($digests::VARCHAR[]),
    unnest($sources::VARCHAR[]),
    $collector,
    $ingested_at,
    unnest($read::BIGINT[]),
    unnest($stored::BIGINT[]),
    unnest($duplicates::BIGINT[]),
    0,
    unnest($users::BIGINT[]),
    unnest($apis::BIGINT[]),
    $seconds
