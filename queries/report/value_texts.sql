-- What the value numbers of an API stand for.
SELECT value_id, status, text FROM value JOIN api USING (api_id) WHERE name = $api
