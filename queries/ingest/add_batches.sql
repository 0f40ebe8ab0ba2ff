-- Logs that were stored: a list of each member, with an entry a log.
INSERT INTO batch BY NAME
SELECT
    unnest($batch::INTEGER[]) AS batch_id,
    unnest($digest::VARCHAR[]) AS digest,
    unnest($source::VARCHAR[]) AS source,
    unnest($collector::VARCHAR[]) AS collector,
    $ingested_at AS ingested_at,
    unnest($read::BIGINT[]) AS read,
    unnest($stored::BIGINT[]) AS stored,
    unnest($duplicates::BIGINT[]) AS duplicates,
    unnest($rejected::BIGINT[]) AS rejected,
    unnest($users::BIGINT[]) AS users,
    unnest($apis::BIGINT[]) AS apis,
    unnest($seconds::DOUBLE[]) AS seconds,
    unnest($unit::VARCHAR[]) AS unit,
    unnest($content::VARCHAR[]) AS content,
    unnest($bytes::BIGINT[]) AS bytes,
    unnest($beginning::VARCHAR[]) AS beginning,
    unnest($origin::VARCHAR[]) AS origin,
    unnest($unordered::BIGINT[]) AS unordered,
    unnest($account::VARCHAR[]) AS account
