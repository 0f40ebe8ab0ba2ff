-- One row per record of the log, in its order, with what is wrong with it; the user's id stays behind.
CREATE OR REPLACE TEMP TABLE staged AS
SELECT
    COALESCE(
        problem,
        CASE
            WHEN "user" IS NULL OR "user" = '' THEN 'user is missing'
            WHEN "time" IS NOT NULL AND (parsed_time IS NULL OR NOT isfinite(parsed_time))
                THEN 'time is neither ISO 8601 nor seconds or milliseconds since 1970'
            -- Windows of others would not begin or end within the years that dates have.
            WHEN parsed_time NOT BETWEEN TIMESTAMP '0001-01-01' AND TIMESTAMP '9998-12-31' THEN 'time is not of the years 1 to 9998'
        END
    ) AS problem,
    ('0x' || left(sha256($key || "user"), 16))::UBIGINT AS digest,
    parsed_time AS "time",
    source,
    {columns}
FROM (
    SELECT
        *,
        CASE
            WHEN contains("time", '-') THEN COALESCE(
                TRY_CAST("time" AS TIMESTAMPTZ),
                -- DuckDB 1.5 wants seconds.
                TRY_CAST(regexp_replace("time", '^(.{10}[T ][0-9]{2}:[0-9]{2})(Z|[+-].*)?$', '\1:00\2') AS TIMESTAMPTZ)
            )::TIMESTAMP
            WHEN regexp_full_match("time", '[0-9]{1,11}(\.[0-9]+)?') THEN make_timestamp((TRY_CAST("time" AS DOUBLE) * 1000000)::BIGINT)
            WHEN regexp_full_match("time", '[0-9]{12,14}(\.[0-9]+)?') THEN make_timestamp((TRY_CAST("time" AS DOUBLE) * 1000)::BIGINT)
            ELSE TRY_CAST("time" AS TIMESTAMPTZ)::TIMESTAMP
        END AS parsed_time
    FROM ({scan})
)
