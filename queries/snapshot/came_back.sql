-- Users of the window with several visits, of which those of one session of a page are one.
SELECT count(*) AS users
FROM (
    SELECT user_id
    FROM visit
    LEFT JOIN page_view USING (visit_id)
    LEFT JOIN (SELECT session, min(visit_id) AS visit_id FROM page_view WHERE session IS NOT NULL GROUP BY session) AS first_of_session
        USING (session)
    WHERE {windows/inside}
    GROUP BY user_id
    HAVING count(DISTINCT COALESCE(first_of_session.visit_id, visit.visit_id)) > 1
)
