-- Records that may repeat an observation: all of a long log; of a wide log those of a visit that is stored already or has several.
CREATE OR REPLACE TEMP TABLE repeat AS
SELECT staged.rowid AS row, numbered_visit.visit_id, numbered_visit.known, numbered_visit."time" IS NULL AS undated
FROM staged
JOIN numbered_visit
    ON numbered_visit.digest = staged.digest
    AND numbered_visit.view IS NOT DISTINCT FROM staged.view
    AND numbered_visit.moment IS NOT DISTINCT FROM CASE WHEN staged.view IS NULL THEN staged."time" END
    AND numbered_visit.source IS NOT DISTINCT FROM staged.source
WHERE staged.problem IS NULL AND (NOT $wide OR numbered_visit.known OR numbered_visit.records > 1)
