-- Names of APIs that no observation has any more: a database has room for so many.
DELETE FROM api WHERE NOT EXISTS (SELECT 1 FROM observation WHERE observation.api_id = api.api_id)
