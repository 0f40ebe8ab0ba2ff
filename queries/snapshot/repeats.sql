-- Users who were seen with an API in several sessions of a window: whether its value changed from one to another, and whether one came
-- back. A value that was corrected later is no change; but if it came back, it did, so that no correction lowers an exposure.
WITH inside AS (
    SELECT visit_id, user_id, COALESCE(first_of_session.visit_id, visit.visit_id) AS session
    FROM visit
    LEFT JOIN page_view USING (visit_id)
    LEFT JOIN (SELECT session, min(visit_id) AS visit_id FROM page_view WHERE session IS NOT NULL GROUP BY session) AS first_of_session
        USING (session)
    WHERE {windows/inside}
),
repeated AS (SELECT user_id FROM inside GROUP BY user_id HAVING count(*) > 1),
told AS ({told}),
seen AS MATERIALIZED (
    SELECT api_id, user_id, count(DISTINCT value_id) AS held, count(*) AS told, count(DISTINCT session) AS sessions
    FROM told
    SEMI JOIN repeated USING (user_id)
    GROUP BY api_id, user_id
    HAVING count(DISTINCT session) > 1
),
corrected AS (
    SELECT api_id, user_id, count(DISTINCT last_told) AS held
    FROM (
        SELECT api_id, user_id, session, arg_max(value_id, place) AS last_told
        FROM told
        SEMI JOIN (SELECT api_id, user_id FROM seen WHERE told > sessions) AS doubtful USING (api_id, user_id)
        GROUP BY api_id, user_id, session
    )
    GROUP BY api_id, user_id
)
SELECT api_id, user_id, COALESCE(corrected.held, seen.held) > 1 AS changed, told > seen.held AS kept
FROM seen
LEFT JOIN corrected USING (api_id, user_id)
