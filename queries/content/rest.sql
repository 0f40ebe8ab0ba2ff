-- Rows of every other table, and the sum of a 64-bit word for each from what it says: neither numbers of the database nor when it was
-- stored count.
WITH line AS (
    SELECT 'api' AS what, json_array(name) AS text FROM api
    UNION ALL
    SELECT 'value', json_array(api.name, status, text) FROM value LEFT JOIN api USING (api_id)
    UNION ALL
    SELECT 'source', json_array(name) FROM source
    UNION ALL
    SELECT 'batch', json_array(digest, source, collector, read, stored, duplicates, rejected, users, apis) FROM batch
    UNION ALL
    SELECT 'reject', json_array(digest, line, reason, excerpt) FROM reject LEFT JOIN batch USING (batch_id)
    UNION ALL
    SELECT 'demand_batch', json_array(digest, source, collector, read, stored, rejected) FROM demand_batch
    UNION ALL
    SELECT 'demand', json_array(digest, site, script, api, calls) FROM demand LEFT JOIN demand_batch USING (batch_id)
    UNION ALL
    SELECT 'checked_window', json_array(series, label, terms, within, above) FROM checked_window
    UNION ALL
    SELECT 'answered_query', json_array(reader, query) FROM answered_query
    UNION ALL
    SELECT 'registered_question', json_array(question) FROM question WHERE answer IS NULL
)
SELECT what, count(*), sum(('0x' || sha256(text::VARCHAR)[:16])::UBIGINT)::VARCHAR FROM line GROUP BY what
UNION ALL
SELECT 'user', count(*), COALESCE(sum(digest), 0)::VARCHAR FROM user
