-- Values that look like a JSON object or array.
SELECT DISTINCT text FROM arrived_value WHERE text[1] IN ('{', '[')
