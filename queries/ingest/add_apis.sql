-- Number the APIs that were not seen before.
INSERT INTO api
SELECT (SELECT COALESCE(max(api_id), 0) FROM api) + row_number() OVER (ORDER BY position), name
FROM (SELECT unnest($names::VARCHAR[]) AS name, unnest(range(len($names::VARCHAR[]))) AS position) AS arrived
ANTI JOIN api USING (name)
