-- The first and the last day (UTC) of a window on which enough users came.
SELECT min("day"), max("day") FROM (
    SELECT "time"::DATE AS "day" FROM visit
    WHERE "time" IS NOT NULL
        AND {windows/inside}
    GROUP BY "day"
    HAVING count(DISTINCT user_id) >= $least
)
