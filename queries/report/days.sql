-- The first and the last day (UTC) of a window on which enough users came.
SELECT min("day"), max("day") FROM (
    SELECT "time"::DATE AS "day" FROM visit
    WHERE "time" IS NOT NULL
        AND ($window_from::TIMESTAMP IS NULL OR "time" >= $window_from)
        AND ($window_to::TIMESTAMP IS NULL OR "time" < $window_to)
        AND ($source::VARCHAR IS NULL OR coalesce(source_id IN (SELECT source_id FROM source WHERE name = ltrim($source, '!') OR ends_with(name, ' via ' || ltrim($source, '!'))), false) <> starts_with($source, '!'))
    GROUP BY "day"
    HAVING count(DISTINCT user_id) >= $least
)
