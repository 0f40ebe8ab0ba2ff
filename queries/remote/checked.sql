-- The records of a batch with what is wrong with them, as the local ingest words it.
SELECT
    CASE
        WHEN api IS NULL OR api = '' THEN 'api is missing'
        WHEN status IS NOT NULL AND status NOT IN ('value', 'undefined', 'error') THEN 'status is none of value, undefined, error'
        WHEN "user" IS NULL OR "user" = '' THEN 'user is missing'
        WHEN no_time THEN 'time is neither ISO 8601 nor seconds or milliseconds since 1970'
    END AS problem,
    checked_record.*
FROM ({records}) AS checked_record
