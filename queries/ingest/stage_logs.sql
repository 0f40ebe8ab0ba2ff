-- Logs that are staged together: their numbers, and where their records begin.
CREATE OR REPLACE TEMP TABLE staged_log AS
SELECT unnest($batches::INTEGER[]) AS batch_id, unnest($first_rows::BIGINT[]) AS first_row
