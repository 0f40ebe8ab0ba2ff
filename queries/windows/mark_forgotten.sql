-- Calendar windows of visits that are to be forgotten.
CREATE OR REPLACE TEMP TABLE changed_window AS
SELECT DISTINCT period, date_trunc(period, "time") AS since
FROM visit
SEMI JOIN forgotten USING (visit_id)
CROSS JOIN (SELECT DISTINCT period FROM kept_window)
WHERE "time" IS NOT NULL
