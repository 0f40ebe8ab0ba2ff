-- One row per user, for the owner in a shell.
CREATE OR REPLACE TEMP VIEW users AS
SELECT
    user_id AS "user",
    count(*) AS visits,
    count(DISTINCT source_id) AS sources,
    min("time") AS first_seen,
    max("time") AS last_seen
FROM visit
GROUP BY user_id
