-- Calendar windows with visits that are new, or were told something new: observations are numbered as they are stored.
CREATE OR REPLACE TEMP TABLE changed_window AS
SELECT DISTINCT period, date_trunc(period, day) AS since
FROM (
    SELECT DISTINCT date_trunc('day', "time") AS day
    FROM (
        SELECT "time" FROM visit WHERE visit_id > $last_visit
        UNION ALL
        SELECT "time" FROM visit
        SEMI JOIN (SELECT visit_id FROM observation WHERE rowid >= $observations AND visit_id <= $last_visit) AS told USING (visit_id)
    )
    WHERE "time" IS NOT NULL
)
CROSS JOIN (SELECT DISTINCT period FROM kept_window)
