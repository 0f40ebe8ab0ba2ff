-- The largest number of a value of one API.
SELECT COALESCE(max(value_id), 0) FROM value WHERE api_id = $api
