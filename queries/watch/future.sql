-- Users of visits that have a time after some moment.
SELECT count(DISTINCT user_id) FROM visit WHERE "time" > $moment
