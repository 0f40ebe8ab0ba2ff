-- Users with an observation in the window: the rows of a snapshot, in their order.
SELECT DISTINCT user_id FROM visit
SEMI JOIN observation USING (visit_id)
WHERE {windows/inside}
ORDER BY user_id
