-- When the oldest visit from a moment on was.
SELECT (SELECT "time" FROM visit WHERE "time" >= $since ORDER BY "time" LIMIT 1)
