-- The highest users who may have made a list, and who came before a visit. Users are numbered as they first come, so nobody who has a visit
-- before a number is above the highest user there, which DuckDB finds without reading a long history.
SELECT
    (SELECT COALESCE(max(user_id), -1) FROM visit WHERE visit_id <= $last_visit),
    (SELECT COALESCE(max(user_id), -1) FROM visit WHERE visit_id < $first)
