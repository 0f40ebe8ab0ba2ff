-- Values of some columns that look like a JSON object or array.
SELECT DISTINCT text
FROM (SELECT unnest([{columns}]) AS text FROM checked WHERE problem IS NULL) AS seen
WHERE substr(text, 1, 1) IN ('{', '[')
