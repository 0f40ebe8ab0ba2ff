-- Observations of one API in the other records.
CREATE OR REPLACE TEMP TABLE contested AS
SELECT repeat.row, repeat.visit_id, repeat.known, coded_value.api_id, coded_value.value_id
FROM repeat
JOIN ({values}) AS log_value ON log_value.log_row = repeat.row
JOIN coded_value ON coded_value.raw = log_value.{column} AND coded_value.api_id = $api::INTEGER
