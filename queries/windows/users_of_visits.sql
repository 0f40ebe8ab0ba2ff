-- Users of some visits, which lie between two numbers.
SELECT count(DISTINCT user_id) FROM visit SEMI JOIN asked USING (visit_id) WHERE visit_id BETWEEN $first AND $last
