-- Users of a window whose first and last visit are known.
SELECT count(DISTINCT user_id) FROM visit
WHERE visit_id BETWEEN $first AND $last AND {windows/inside}
