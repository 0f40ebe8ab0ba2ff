-- Users with an observation in the window, in the order of the rows of its snapshot: whether the list may have been decided on them,
-- and whether they may have come before the window. A mark for each user takes a fraction of the time of a group for each.
WITH inside AS (
    SELECT DISTINCT user_id FROM visit
    SEMI JOIN (SELECT visit_id FROM observation WHERE visit_id BETWEEN $first AND $last) AS observed USING (visit_id)
    WHERE {windows/inside}
),
early AS (
    SELECT
        bitstring_agg(user_id, 0, $last_user) FILTER (visit_id <= $last_visit) AS decided,
        bitstring_agg(user_id, 0, $last_user) FILTER ("time" IS NULL OR "time" < $window_from) AS seen
    FROM visit
    WHERE visit_id <= $last_visit OR "time" IS NULL OR "time" < $window_from
)
SELECT
    COALESCE(get_bit(early.decided, user_id) = 1, false) AS decided,
    $window_from::TIMESTAMP IS NULL OR COALESCE(get_bit(early.seen, user_id) = 1, false) AS seen
FROM inside, early
ORDER BY user_id
