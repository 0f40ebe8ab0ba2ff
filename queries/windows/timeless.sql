-- Visits without a time, which belong to no window.
SELECT count(*) FROM visit WHERE "time" IS NULL
