-- Visits of the window in the order of their number.
SELECT visit_id, user_id, "time" FROM visit
WHERE {windows/inside}
ORDER BY visit_id
