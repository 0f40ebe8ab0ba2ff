-- Records that the CSV reader could not split into fields: where they begin in the unpacked log, why, and the text of the first.
SELECT
    line_byte_position,
    lower(any_value(error_type)) AS reason,
    CASE WHEN row_number() OVER (ORDER BY line_byte_position) <= $listed THEN any_value(csv_line[:200]) ELSE '' END AS text
FROM reject_errors
GROUP BY line_byte_position ORDER BY line_byte_position
