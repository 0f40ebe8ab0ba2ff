-- APIs that the database names.
SELECT count(*) FROM api
