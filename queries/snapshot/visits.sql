-- Visits of the window.
SELECT visit_id, user_id, "time" FROM visit
WHERE {windows/inside}
