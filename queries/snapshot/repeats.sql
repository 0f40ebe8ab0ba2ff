-- Users who were seen with an API on several visits of a window: whether with several values, and with one of them twice.
-- A value that was corrected later counts among those of its visit.
WITH inside AS (
    SELECT visit_id, user_id FROM visit
    WHERE {windows/inside}
),
repeated AS (SELECT user_id FROM inside GROUP BY user_id HAVING count(*) > 1)
SELECT api_id, user_id, count(DISTINCT value_id) > 1 AS changed,
    count(*) > count(DISTINCT value_id) AS kept
FROM observation
JOIN inside USING (visit_id)
SEMI JOIN repeated USING (user_id)
GROUP BY api_id, user_id
HAVING count(DISTINCT visit_id) > 1
