-- APIs of which a value has several lines.
SELECT DISTINCT api_id FROM raw_value WHERE contains(raw, chr(10)) ORDER BY api_id
