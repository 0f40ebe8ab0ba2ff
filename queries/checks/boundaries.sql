-- The highest users who may have made a list, and who came before a visit. Users are numbered as they first come, so nobody who has a visit
-- before a number is above the highest user there, the first in an order: for `max` DuckDB reads a long history.
SELECT
    COALESCE((SELECT user_id FROM visit WHERE visit_id <= $last_visit ORDER BY user_id DESC LIMIT 1), -1),
    COALESCE((SELECT user_id FROM visit WHERE visit_id < $first ORDER BY user_id DESC LIMIT 1), -1)
