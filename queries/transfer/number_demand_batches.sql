-- Logs of API calls of the export that were not stored here before.
CREATE OR REPLACE TEMP TABLE demand_batch_number AS
SELECT
    arrived.batch_id AS arrived_id,
    (SELECT COALESCE(max(batch_id), 0) FROM demand_batch) + row_number() OVER (ORDER BY arrived.batch_id) AS batch_id
FROM arrived_demand_batch AS arrived
ANTI JOIN demand_batch USING (digest)
