-- Users of visits before the window that were stored later, or that have no time.
SELECT DISTINCT user_id FROM visit WHERE visit_id >= $first AND ("time" IS NULL OR "time" < $window_from)
