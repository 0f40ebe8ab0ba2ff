-- Taken visits with their numbers here; new ones follow in the order of the export.
CREATE OR REPLACE TEMP TABLE visit_number AS
SELECT
    arrived_id,
    visit_id IS NULL AS fresh,
    COALESCE(
        visit_id,
        (SELECT COALESCE(max(visit_id), 0) FROM visit) + row_number() OVER (PARTITION BY visit_id IS NULL ORDER BY arrived_id)
    )::INTEGER AS visit_id
FROM taken_visit
