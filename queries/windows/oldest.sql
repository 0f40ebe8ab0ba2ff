-- When the oldest visit from a moment on was.
SELECT min("time") FROM visit WHERE "time" >= $since
