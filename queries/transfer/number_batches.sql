-- Batches of the export with their numbers here; those that were stored here before keep theirs.
CREATE OR REPLACE TEMP TABLE batch_number AS
SELECT
    arrived.batch_id AS arrived_id,
    batch.batch_id IS NULL AS fresh,
    COALESCE(
        batch.batch_id,
        (SELECT COALESCE(max(batch_id), 0) FROM batch) + row_number() OVER (PARTITION BY batch.batch_id IS NULL ORDER BY arrived.batch_id)
    )::INTEGER AS batch_id
FROM arrived_batch AS arrived
LEFT JOIN batch USING (digest)
