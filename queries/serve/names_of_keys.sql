-- Names of APIs beside those of the vocabulary that each key has brought: a sender may say as many versions, which are sources, as it likes.
SELECT DISTINCT string_split(source.name, $via)[-1], api.name
FROM (
    SELECT DISTINCT visit.source_id, observation.api_id
    FROM observation
    JOIN visit USING (visit_id)
    SEMI JOIN (SELECT api_id FROM api WHERE NOT list_contains($vocabulary::VARCHAR[], name)) AS own USING (api_id)
    WHERE visit.source_id IS NOT NULL
) AS brought
JOIN source USING (source_id)
JOIN api USING (api_id)
