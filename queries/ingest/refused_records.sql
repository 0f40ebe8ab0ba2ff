-- Records that the CSV reader could not split into fields: where they begin in the unpacked log, why, and their text.
SELECT line_byte_position, lower(any_value(error_type)) AS reason, any_value(csv_line[:200]) AS text FROM reject_errors
GROUP BY line_byte_position ORDER BY line_byte_position
