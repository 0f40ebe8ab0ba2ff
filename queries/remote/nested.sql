-- Values that look like a JSON object or array.
SELECT DISTINCT value AS text FROM cells WHERE substr(value, 1, 1) IN ('{', '[')
