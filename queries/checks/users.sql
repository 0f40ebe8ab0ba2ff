-- Users with an observation in the window, in the order of the rows of its snapshot: whether the list may have been decided on them,
-- and whether they may have come before the window.
WITH inside AS (
    SELECT DISTINCT user_id FROM visit
    SEMI JOIN observation USING (visit_id)
    WHERE {windows/inside}
)
SELECT
    min(visit_id) <= $last_visit AS decided,
    bool_or($window_from::TIMESTAMP IS NULL OR "time" IS NULL OR "time" < $window_from) AS seen
FROM visit
SEMI JOIN inside USING (user_id)
GROUP BY user_id
ORDER BY user_id
