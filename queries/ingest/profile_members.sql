-- What each API has in each log: records with a value, different values, some of them drawn evenly by their hash, the commonest, and
-- spellings of a missing one.
SELECT
    log,
    api_id,
    sum(records)::BIGINT,
    count(*),
    arg_min(text, hash(text), 200),
    arg_max(text, (records, text)),
    max(records)::BIGINT,
    map_from_entries(list((text, records::BIGINT)) FILTER (text = 'None' OR list_contains($missing::VARCHAR[], lower(trim(text)))))
FROM (
    SELECT
        log,
        api_id,
        CASE status WHEN 'undefined' THEN 'undefined' WHEN 'error' THEN 'Error: ' || COALESCE(text, '') ELSE COALESCE(text, '') END AS text,
        sum(records) AS records
    FROM canonical_value
    GROUP BY ALL
)
GROUP BY log, api_id
