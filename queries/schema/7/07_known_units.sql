-- What can be known of earlier logs: a user with several records was named by the log; more users than records come of a weight; and
-- requests of which each was another user were rows.
UPDATE batch SET unit = CASE
    WHEN users < read - rejected THEN CASE collector WHEN 'har' THEN 'visitor' ELSE 'user' END
    WHEN users > read - rejected OR collector = 'accesslog' THEN 'row'
END
