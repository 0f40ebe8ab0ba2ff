-- Observations as they are stored: users by keyed digest, nested values canonical, large ones by digest and length.
SELECT
    substr(sha256($key || "user"), 1, 16) AS "user", moment, source, api, status,
    CASE
        WHEN count_bytes(whole) > $large THEN 'sha256:' || substr(sha256(whole), 1, 32) || ':' || length(whole)::VARCHAR
        ELSE whole
    END AS text,
    $batch AS batch
FROM (
    SELECT cells."user", moment, source, api, status, COALESCE(nested_value.canonical, value) AS whole
    FROM cells LEFT JOIN nested_value ON nested_value.text = cells.value
) AS canonical
