-- The visit of each staged record; fresh wide records are alone in a new visit and cannot repeat anything.
CREATE OR REPLACE TEMP TABLE staged_record AS
SELECT staged.rowid AS row, staged_visit.visit_id, staged_visit.known, $wide AND NOT staged_visit.known AND staged_visit.records = 1 AS fresh
FROM staged
JOIN user USING (digest)
LEFT JOIN source ON source.name = staged.source
JOIN staged_visit
    ON staged_visit.user_id = user.user_id
    AND staged_visit."time" IS NOT DISTINCT FROM staged."time"
    AND staged_visit.source_id IS NOT DISTINCT FROM source.source_id
WHERE staged.problem IS NULL
