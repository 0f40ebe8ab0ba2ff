-- Visits that are stored already keep their number. Others follow in the order of the log: in a wide log by the place of
-- their first record, so that no join is needed to find the visit of a record; in a long log without gaps.
CREATE OR REPLACE TEMP TABLE numbered_visit AS
SELECT
    arrived.*,
    visit.visit_id IS NOT NULL AS known,
    COALESCE(
        visit.visit_id,
        $last + CASE WHEN $wide THEN first_row + 1 ELSE row_number() OVER (PARTITION BY visit.visit_id IS NULL ORDER BY first_row) END
    )::INTEGER AS visit_id
FROM (
    SELECT staged_visit.*, user.user_id, source.source_id
    FROM staged_visit
    JOIN user USING (digest)
    LEFT JOIN source ON source.name = staged_visit.source
) AS arrived
LEFT JOIN (
    -- Bounds that are bound leave out stretches of the table: 1,000 records met all visits ever stored, 0.3 s for 10 million.
    SELECT visit_id, user_id, source_id, NULL::UBIGINT AS view, "time" AS moment
    FROM visit
    ANTI JOIN (SELECT visit_id FROM page_view WHERE view IS NOT NULL) AS named USING (visit_id)
    WHERE "time" BETWEEN $earliest AND $latest OR "time" IS NULL
    UNION ALL
    SELECT visit_id, user_id, source_id, view, NULL AS moment
    FROM visit
    JOIN page_view USING (visit_id)
    WHERE view IN (SELECT view FROM staged_visit)
) AS visit
    ON visit.user_id = arrived.user_id
    AND visit.view IS NOT DISTINCT FROM arrived.view
    AND visit.moment IS NOT DISTINCT FROM arrived.moment
    AND visit.source_id IS NOT DISTINCT FROM arrived.source_id
