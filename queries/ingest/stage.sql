-- One row per record of the log, in its order, with what is wrong with it; the user's id stays behind, and so do the names of visits
-- and sessions: their words join nothing of two users.
CREATE OR REPLACE TEMP TABLE staged AS
SELECT
    COALESCE(
        problem,
        CASE
            WHEN "user" IS NULL OR "user" = '' THEN 'user is missing'
            WHEN "user"[1] IN (chr(123), '[') AND json_valid("user") THEN 'user is an object or a list, of which --user can name a member (--user user.id)'
            WHEN "time" IS NOT NULL AND (parsed_time IS NULL OR NOT isfinite(parsed_time))
                THEN CASE
                    WHEN regexp_full_match("time", '[0-9.]+') THEN 'time is a number, and none since 1970 that leads to the years 1990 to 2200'
                    ELSE 'time is neither ISO 8601, nor a date of a log or of JavaScript, nor a number since 1970'
                END
            -- Windows of others would not begin or end within the years that dates have.
            WHEN parsed_time NOT BETWEEN TIMESTAMP '0001-01-01' AND TIMESTAMP '9998-12-31' THEN 'time is not of the years 1 to 9998'
        END
    ) AS problem,
    ('0x' || left(sha256($key || "user"), 16))::UBIGINT AS digest,
    parsed_time AS "time",
    source,
    view,
    session,
    {columns}
FROM (
    SELECT
        *,
        {ingest/parse_time} AS parsed_time
    FROM ({scan})
)
