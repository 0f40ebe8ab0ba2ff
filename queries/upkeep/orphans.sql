-- Rows that name what is not there, and numbers that stand for two things: 0 of each in a sound database.
SELECT 'observations without their visit' AS what, count(*) AS found FROM observation ANTI JOIN visit USING (visit_id)
UNION ALL
SELECT 'observations without their value', count(*) FROM observation ANTI JOIN value USING (api_id, value_id)
UNION ALL
SELECT 'observations without their API', count(*) FROM observation ANTI JOIN api USING (api_id)
UNION ALL
SELECT 'visits without their user', count(*) FROM visit ANTI JOIN user USING (user_id)
UNION ALL
SELECT 'visits without their batch', count(*) FROM visit ANTI JOIN batch USING (batch_id)
UNION ALL
SELECT 'visits without their source', count(*) FROM visit ANTI JOIN source USING (source_id) WHERE visit.source_id IS NOT NULL
UNION ALL
SELECT 'names of visits without their visit', count(*) FROM page_view ANTI JOIN visit USING (visit_id)
UNION ALL
SELECT 'visits with two names', count(*) - count(DISTINCT visit_id) FROM page_view
UNION ALL
SELECT 'visit numbers that occur twice', count(*) - count(DISTINCT visit_id) FROM visit
UNION ALL
SELECT 'users that occur twice', count(*) - count(DISTINCT digest) FROM user
UNION ALL
SELECT 'values that occur twice', count(*) - count(DISTINCT (api_id, value_id)) FROM value
UNION ALL
SELECT 'batches whose counts do not add up', count(*) FROM batch WHERE read <> stored + duplicates + rejected
