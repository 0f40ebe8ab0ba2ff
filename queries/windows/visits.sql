-- Visits of a window whose first and last number are known.
SELECT visit_id, user_id, "time" FROM visit
WHERE visit_id BETWEEN $first AND $last
    AND {windows/inside}
