-- Observations of a long log.
CREATE OR REPLACE TEMP TABLE contested AS
SELECT repeat.row, repeat.visit_id, repeat.known, api.api_id, coded_value.value_id
FROM repeat
JOIN staged ON staged.rowid = repeat.row
JOIN api ON api.name = staged.api
JOIN coded_value
    ON coded_value.api_id = api.api_id
    AND coded_value.status = staged.status
    AND coded_value.raw IS NOT DISTINCT FROM staged.value
