-- When the newest calendar window with a visit begins, of those before a moment if there is one.
SELECT date_trunc($period, max("time")) FROM visit WHERE $before::TIMESTAMP IS NULL OR "time" < $before
