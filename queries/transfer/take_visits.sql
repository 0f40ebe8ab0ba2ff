-- Visits that are to be here: those that are, and those of new batches. A visit of a batch that was stored here before, and is
-- here no more, was forgotten, and stays so.
CREATE OR REPLACE TEMP TABLE taken_visit AS
SELECT arrived.visit_id AS arrived_id, arrived.digest, arrived."time", arrived.source, batch_number.batch_id, here.visit_id
FROM (
    SELECT
        visit.visit_id, visit.batch_id, visit."time", user.digest, source.name AS source, page_view.view,
        CASE WHEN page_view.view IS NULL THEN visit."time" END AS moment
    FROM arrived_visit AS visit
    JOIN arrived_user AS user USING (user_id)
    LEFT JOIN arrived_source AS source USING (source_id)
    LEFT JOIN arrived_page_view AS page_view USING (visit_id)
) AS arrived
JOIN batch_number ON batch_number.arrived_id = arrived.batch_id
LEFT JOIN (
    SELECT
        visit.visit_id, user.digest, source.name AS source, page_view.view,
        CASE WHEN page_view.view IS NULL THEN visit."time" END AS moment
    FROM visit
    JOIN user USING (user_id)
    LEFT JOIN source USING (source_id)
    LEFT JOIN page_view USING (visit_id)
) AS here
    ON here.digest = arrived.digest
    AND here.moment IS NOT DISTINCT FROM arrived.moment
    AND here.view IS NOT DISTINCT FROM arrived.view
    AND here.source IS NOT DISTINCT FROM arrived.source
WHERE (batch_number.fresh OR here.visit_id IS NOT NULL) AND arrived.digest NOT IN (SELECT digest FROM forgotten_user)
