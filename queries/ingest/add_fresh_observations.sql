-- Observations in the records of a wide log that are alone in a new visit, of one API or several.
INSERT INTO observation
SELECT ($last + cell.log_row + 1)::INTEGER, coded_value.api_id, coded_value.value_id
FROM ({cells}) AS cell
JOIN coded_value ON coded_value.raw = cell.raw AND coded_value.api_id = cell.api_id AND coded_value.api_id IN ({apis})
ANTI JOIN repeat ON repeat.row = cell.log_row
{ordered}
