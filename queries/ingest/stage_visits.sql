-- The visits of the staged records: those already stored keep their number, the others follow in the order of the log.
CREATE OR REPLACE TEMP TABLE staged_visit AS
WITH arrived AS (
    SELECT user.user_id, staged."time", source.source_id, min(staged.rowid) AS first_row, count(*) AS records
    FROM staged
    JOIN user USING (digest)
    LEFT JOIN source ON source.name = staged.source
    WHERE staged.problem IS NULL
    GROUP BY ALL
)
SELECT
    arrived.*,
    COALESCE(
        visit.visit_id,
        (SELECT COALESCE(max(visit_id), 0) FROM visit) + row_number() OVER (PARTITION BY visit.visit_id IS NULL ORDER BY first_row)
    )::INTEGER AS visit_id,
    visit.visit_id IS NOT NULL AS known
FROM arrived
LEFT JOIN visit
    ON visit.user_id = arrived.user_id
    AND visit."time" IS NOT DISTINCT FROM arrived."time"
    AND visit.source_id IS NOT DISTINCT FROM arrived.source_id
