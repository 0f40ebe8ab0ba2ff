-- APIs of the export that are not here, seen or not, as an ingest would number them.
INSERT INTO api
SELECT (SELECT COALESCE(max(api_id), 0) FROM api) + row_number() OVER (ORDER BY arrived.api_id), arrived.name
FROM arrived_api AS arrived
ANTI JOIN api USING (name)
