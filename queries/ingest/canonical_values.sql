-- Nested values in canonical JSON, large ones by digest and length.
CREATE OR REPLACE TEMP TABLE canonical_value AS
SELECT
    log,
    api_id,
    status,
    raw,
    records,
    CASE
        WHEN strlen(full_text) > $large THEN 'sha256:' || sha256(full_text)[:32] || ':' || length(full_text)
        ELSE full_text
    END AS text
FROM (
    SELECT arrived_value.* EXCLUDE (text), COALESCE(nested.canonical, arrived_value.text) AS full_text
    FROM arrived_value
    LEFT JOIN (
        SELECT unnest($texts::VARCHAR[]) AS text, unnest($canonical::VARCHAR[]) AS canonical
    ) AS nested ON nested.text = arrived_value.text
)
