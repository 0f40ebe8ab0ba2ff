-- Visits of the window in the order of their number, with the first one of the same session, themselves where no session is known.
SELECT visit_id, user_id, "time", COALESCE(first_of_session.visit_id, visit.visit_id) AS session
FROM visit
LEFT JOIN page_view USING (visit_id)
LEFT JOIN (SELECT session, min(visit_id) AS visit_id FROM page_view WHERE session IS NOT NULL GROUP BY session) AS first_of_session
    USING (session)
WHERE {windows/inside}
ORDER BY visit_id
