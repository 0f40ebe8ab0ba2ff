-- Visits of the logs of this name.
CREATE OR REPLACE TEMP TABLE forgotten AS
SELECT visit_id FROM visit JOIN batch USING (batch_id) WHERE batch.source = $source
