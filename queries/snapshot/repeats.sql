-- Users who were seen with an API in several sessions of a window: whether its value changed from one visit to another, and whether one
-- came back. A visit whose session is not known is one of its own. A value that was corrected later is no change; but if it came back, it did, so that no correction lowers an exposure.
WITH inside AS (
    SELECT visit_id, user_id, COALESCE(session::HUGEINT, -visit_id) AS session
    FROM visit
    LEFT JOIN page_view USING (visit_id)
    WHERE {windows/inside}
),
repeated AS (SELECT user_id FROM inside GROUP BY user_id HAVING count(DISTINCT session) > 1),
seen AS MATERIALIZED (
    SELECT api_id, user_id, count(DISTINCT value_id) AS held, count(*) AS told, count(DISTINCT visit_id) AS visits,
        count(DISTINCT (session, value_id)) AS of_sessions
    FROM observation
    JOIN inside USING (visit_id)
    SEMI JOIN repeated USING (user_id)
    GROUP BY api_id, user_id
    HAVING count(DISTINCT session) > 1
),
corrected AS (
    SELECT api_id, user_id, count(DISTINCT last_told) AS held
    FROM (
        SELECT api_id, user_id, visit_id, arg_max(value_id, observation.rowid) AS last_told
        FROM observation
        JOIN inside USING (visit_id)
        SEMI JOIN (SELECT api_id, user_id FROM seen WHERE told > visits) AS doubtful USING (api_id, user_id)
        GROUP BY api_id, user_id, visit_id
    )
    GROUP BY api_id, user_id
)
SELECT api_id, user_id, COALESCE(corrected.held, seen.held) > 1 AS changed, of_sessions > seen.held AS kept
FROM seen
LEFT JOIN corrected USING (api_id, user_id)
