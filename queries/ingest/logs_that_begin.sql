-- Stored logs that begin with some first lines, the longest first.
SELECT beginning, source, digest, content, bytes, origin FROM batch
WHERE beginning IN (SELECT unnest($beginnings::VARCHAR[]))
ORDER BY bytes DESC, batch_id
