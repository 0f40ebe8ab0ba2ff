-- Observations of one API or several in the other records.
CREATE OR REPLACE TEMP TABLE contested AS
SELECT repeat.row, repeat.visit_id, repeat.known, coded_value.api_id, coded_value.value_id
FROM repeat
JOIN ({cells}) AS cell ON cell.log_row = repeat.row
JOIN coded_value ON coded_value.raw = cell.raw AND coded_value.api_id = cell.api_id AND coded_value.api_id IN ({apis})
