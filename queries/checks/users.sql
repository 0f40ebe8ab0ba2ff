-- Users with an observation in the window, in the order of the rows of its snapshot: whether the list may have been decided on them,
-- and whether they may have come before the window. Users are numbered as they first come, so that whoever has a visit before a number
-- is none above the highest user there, which DuckDB finds without reading a long history; of later numbers only late visits are before.
WITH inside AS (
    SELECT DISTINCT user_id FROM visit
    SEMI JOIN (SELECT visit_id FROM observation WHERE visit_id BETWEEN $first AND $last) AS observed USING (visit_id)
    WHERE {windows/inside}
),
late AS (SELECT user_id FROM visit WHERE visit_id >= $first AND ("time" IS NULL OR "time" < $window_from))
SELECT
    COALESCE(user_id <= (SELECT max(user_id) FROM visit WHERE visit_id <= $last_visit), false) AS decided,
    $window_from::TIMESTAMP IS NULL
    OR COALESCE(user_id <= (SELECT max(user_id) FROM visit WHERE visit_id < $first), false)
    OR user_id IN (FROM late) AS seen
FROM inside
ORDER BY user_id
