-- Observations of one API in the records of a wide log that are alone in a new visit.
INSERT INTO observation
SELECT ($last + log_value.log_row + 1)::INTEGER, $api::INTEGER, coded_value.value_id
FROM ({values}) AS log_value
JOIN coded_value ON coded_value.raw = log_value.{column} AND coded_value.api_id = $api::INTEGER
ANTI JOIN repeat ON repeat.row = log_value.log_row
