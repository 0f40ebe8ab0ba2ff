-- What would be forgotten: visits, their users, all visits, and the times of the first and the last one.
SELECT
    (SELECT count(*) FROM forgotten),
    count(DISTINCT user_id),
    (SELECT count(*) FROM visit),
    min("time"),
    max("time")
FROM visit SEMI JOIN forgotten USING (visit_id)
