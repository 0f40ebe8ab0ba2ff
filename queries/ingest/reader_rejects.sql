-- Lines that the CSV reader could not split into fields.
SELECT line, any_value(lower(error_type)) AS reason, any_value(csv_line) AS excerpt FROM reject_errors GROUP BY line ORDER BY line
