-- Observations of one API in the records of a wide log that are alone in a new visit.
INSERT INTO observation
SELECT ($last + staged.rowid + 1)::INTEGER, $api::INTEGER, coded_value.value_id
FROM staged
JOIN coded_value ON coded_value.{form} = staged.{column} AND coded_value.api_id = $api::INTEGER
ANTI JOIN repeat ON repeat.row = staged.rowid
WHERE staged.problem IS NULL
