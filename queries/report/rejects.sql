SELECT source, line, reason, excerpt
FROM (
    SELECT 1 AS kind, batch_id, batch.source, line, reason, excerpt FROM reject JOIN batch USING (batch_id)
    UNION ALL
    SELECT 2, batch_id, demand_batch.source, line, reason, excerpt FROM demand_reject JOIN demand_batch USING (batch_id)
)
ORDER BY kind, batch_id, line
LIMIT $most
