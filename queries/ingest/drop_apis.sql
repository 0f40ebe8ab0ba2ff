-- Members of a log that are no APIs.
DELETE FROM api WHERE api_id IN (SELECT unnest($apis::INTEGER[]))
